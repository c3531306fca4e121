package processor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// installed returns an engine whose programs are the real poppler's.
func installed(t *testing.T) Poppler {
	t.Helper()
	programs, err := FindPoppler(t.Context())
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Poppler{PDF: child(t, "serve"), Programs: programs}
}

// onEachEngine runs one suite on every engine of kind pdf. limit changes the
// settings that they share.
func onEachEngine(t *testing.T, suite func(t *testing.T, engine func(limit func(*PDF)) Engine)) {
	t.Run("builtin", func(t *testing.T) { onBuiltin(t, suite) })
	t.Run("poppler", func(t *testing.T) {
		e := installed(t)
		suite(t, func(limit func(*PDF)) Engine {
			e := e
			limit(&e.PDF)
			return e
		})
	})
}

func onBuiltin(t *testing.T, suite func(t *testing.T, engine func(limit func(*PDF)) Engine)) {
	suite(t, func(limit func(*PDF)) Engine {
		e := child(t, "serve")
		limit(&e)
		return e
	})
}

func asIs(*PDF) {}

// onDisk writes a document to a file and returns its path.
func onDisk(t *testing.T, data []byte) string {
	t.Helper()
	path := t.TempDir() + "/-in.pdf" // no option, whatever it looks like
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// album is a document of six pages: text, a drawn image, nothing, text beside
// an image with a mask, the same image twice, an inline image.
func album() []byte {
	b := pdftest.Pages("a caption", "", "", "beside it", "", "")
	mask := b.Stream("/Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray", "\x80")
	image := b.Stream(fmt.Sprintf("/Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray /SMask %d 0 R", mask), "\x00")
	page := func(n int, contents string) {
		c := b.Stream("", contents)
		// Page n is the object after its contents, and they follow the font.
		b.Set(3+2*n, "<</Type /Page /Parent 2 0 R /Contents %d 0 R /Resources <</Font <</F 3 0 R>> /XObject <</I %d 0 R>>>>>>", c, image)
	}
	draw := "q 100 0 0 100 72 72 cm /I Do Q\n"
	page(2, draw)
	page(4, pdftest.Contents("beside it")+draw)
	page(5, draw+draw)
	page(6, "q 9 0 0 9 72 72 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \x00 EI Q\n")
	return b.Table("")
}

// feeds is a page whose font says that its codes A and B mean words with form
// feeds in them.
func feeds() []byte {
	b := pdftest.Pages("xAy xBy", "second")
	cmap := b.Stream("", "begincmap 1 begincodespacerange <00> <ff> endcodespacerange 2 beginbfchar <41> <0041000C> <42> <000C0042> endbfchar endcmap")
	b.Set(3, "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode %d 0 R>>", cmap)
	return b.Table("")
}

func lettered(n int) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprintf("page number %d", i+1))
	}
	return texts
}

func TestF74EnginesReadTheSame(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	plain := []string{"Attack at dawn and not a minute later."}
	tests := []struct {
		name                 string
		data                 []byte
		text                 []string // of each page, words a blank apart; nil not to compare
		pages, images        int
		withText, scan, none int
	}{
		{"generated", pdftest.Pages("Hello <World> & all", "second page").Table(""), []string{"Hello <World> & all", "second page"}, 2, 0, 2, 0, 0},
		{"packed", pdftest.Pages("packed away").Packed(""), []string{"packed away"}, 1, 0, 1, 0, 0},
		{"300 pages", pdftest.Pages(lettered(300)...).Table(""), lettered(300), 300, 0, 300, 0, 0},
		{"no pages", pdftest.Pages().Table(""), nil, 0, 0, 0, 0, 0},
		{"images and blank pages", album(), []string{"a caption", "", "", "beside it", "", ""}, 6, 5, 2, 3, 1},
		{"cross-reference lost", []byte(strings.Replace(string(pdftest.Pages("still", "there").Table("")), "startxref", "startxxxx", 1)), []string{"still", "there"}, 2, 0, 2, 0, 0},
		{"cut at the end", bytes.TrimRight(pdftest.Pages("still", "there").Table(""), "\n%EOF0123456789"), []string{"still", "there"}, 2, 0, 2, 0, 0},
		{"groff", testdata(t, "groff.pdf"), nil, 2, 0, 2, 0, 0},
		{"ghostscript", testdata(t, "ghostscript.pdf"), nil, 2, 0, 2, 0, 0},
		{"cairo", testdata(t, "cairo.pdf"), nil, 1, 1, 1, 0, 0},
		{"rc4-40", testdata(t, "rc4-40.pdf"), plain, 1, 0, 1, 0, 0},
		{"rc4-128", testdata(t, "rc4-128.pdf"), plain, 1, 0, 1, 0, 0},
		{"aes-128", testdata(t, "aes-128.pdf"), plain, 1, 0, 1, 0, 0},
		{"aes-128 with cleartext metadata", testdata(t, "aes-128-cleartext-metadata.pdf"), plain, 1, 0, 1, 0, 0},
		{"aes-256", testdata(t, "aes-256.pdf"), plain, 1, 0, 1, 0, 0},
		{"aes-256 of revision 5", testdata(t, "aes-256-r5.pdf"), plain, 1, 0, 1, 0, 0},
	}
	onEachEngine(t, func(t *testing.T, engine func(func(*PDF)) Engine) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				d := newFixture(t, engine(asIs))
				d.put(t, "in.pdf", string(tt.data))
				result := d.mustRun(t, jobs.Job{ID: "j", Kind: "pdf", Input: "in.pdf"})
				s := d.summary(t)
				if s.Engine != d.Engine.Name() || result.Pages != tt.pages || s.Pages != tt.pages {
					t.Errorf("result %+v, summary %+v; want %d pages of %s", result, s, tt.pages, d.Engine.Name())
				}
				damaged := strings.Contains(tt.name, "cut") || strings.Contains(tt.name, "lost")
				if s.Damaged != damaged || result.Damaged != damaged || len(s.Warnings) > 0 != damaged {
					t.Errorf("damaged: %v, result %+v, warnings %q; want damaged %v", s.Damaged, result, s.Warnings, damaged)
				}
				got := [4]int{s.Document.PagesWithText, s.Document.ScannedPages, s.Document.BlankPages, s.Document.Images}
				if want := [4]int{tt.withText, tt.scan, tt.none, tt.images}; got != want {
					t.Errorf("pages with text, scanned, blank, and images: %v, want %v", got, want)
				}
				if tt.text != nil {
					wantTexts(t, d.records(t), tt.text)
				}
			})
		}
	})
}

// wantTexts compares the words of pages and what was counted of them.
func wantTexts(t *testing.T, recs []Record, want []string) {
	t.Helper()
	var got []string
	for i, r := range recs {
		words := strings.Fields(r.Text)
		got = append(got, strings.Join(words, " "))
		if r.Page != i+1 || r.Words != len(words) || r.Characters != len([]rune(strings.Join(words, ""))) || r.HasText != (r.Words > 0) {
			t.Errorf("line %d is page %d with %d words, %d characters, has_text %t: %q", i+1, r.Page, r.Words, r.Characters, r.HasText, r.Text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages: -want +got:\n%s", diff)
	}
}

func TestF74EnginesDescribeTheSame(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	b := pdftest.Pages("text")
	info := b.Add(`<</Title (A title\nPages: 99\nof three lines) /Author <FEFF00C90071> /Subject (about\tit) /Keywords (a, b) /Creator (vi) /Producer (hand) ` +
		`/CreationDate (D:20150304120000+01'30') /ModDate (D:20150304)>>`)
	described := b.Table(fmt.Sprintf("/Info %d 0 R", info))
	created, modified := time.Date(2015, 3, 4, 10, 30, 0, 0, time.UTC), time.Date(2015, 3, 4, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		data []byte
		want pdfInfo
	}{
		{"all fields", described, pdfInfo{
			Version: "1.7", Title: "A title Pages: 99 of three lines", Author: "Éq", Subject: "about it", Keywords: "a, b",
			Creator: "vi", Producer: "hand", Created: created, Modified: modified,
		}},
		{"none", pdftest.Pages("text").Table(""), pdfInfo{Version: "1.7"}},
		{"no pages", pdftest.Pages().Table(""), pdfInfo{Version: "1.7"}},
		{"encrypted", testdata(t, "rc4-40.pdf"), pdfInfo{Version: "1.7", Encrypted: true, Title: "Orders", Producer: "batchfleet pdftest"}},
		{"damaged date", []byte(strings.ReplaceAll(string(described), "(D:20150304", "(D:junk0304")), pdfInfo{
			Version: "1.7", Title: "A title Pages: 99 of three lines", Author: "Éq", Subject: "about it", Keywords: "a, b", Creator: "vi", Producer: "hand",
		}},
	}
	onEachEngine(t, func(t *testing.T, engine func(func(*PDF)) Engine) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				d := newFixture(t, engine(asIs))
				d.put(t, "in.pdf", string(tt.data))
				d.mustRun(t, jobs.Job{ID: "j", Kind: "pdf", Input: "in.pdf"})
				var got pdfInfo
				if err := json.Unmarshal(d.summary(t).Document.Info, &got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("info: -want +got:\n%s", diff)
				}
			})
		}
	})
}

func TestF74EnginesRefuseTheSame(t *testing.T) { onEachEngine(t, refuses) }

func TestF44DocumentsThatCannotBeReadSayWhy(t *testing.T) { onBuiltin(t, refuses) }

func refuses(t *testing.T, engine func(limit func(*PDF)) Engine) {
	whole := pdftest.Pages("one", "two").Table("")
	tests := []struct {
		name     string
		data     []byte
		password string
		want     string
	}{
		{"password", testdata(t, "aes-256-password.pdf"), "", "document is encrypted and needs a password"},
		{"password, old", testdata(t, "rc4-40-password.pdf"), "", "document is encrypted and needs a password"},
		{"wrong password", testdata(t, "rc4-128-password.pdf"), "guess", "document is encrypted and the password does not open it"},
		{"empty", nil, "", "input is not a PDF"},
		{"text", []byte("Dear Sir or Madam"), "", "input is not a PDF"},
		{"zeros", make([]byte, 100_000), "", "input is not a PDF"},
		{"PNG", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), "", "input is not a PDF"},
		{"header alone", []byte("%PDF-1.7\n"), "", "document cannot be opened: "},
		{"header and noise", []byte("%PDF-1.7\n" + strings.Repeat("1 0 obj << endobj ", 1000)), "", "document cannot be opened: "},
		{"cut before the first page", whole[:60], "", "document cannot be opened: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, engine(func(p *PDF) { p.Password = tt.password }))
			d.put(t, "in.pdf", string(tt.data))
			d.mustFail(t, jobs.Job{ID: "j", Input: "in.pdf"}, tt.want)
		})
	}
	t.Run("too many pages", func(t *testing.T) {
		d := newFixture(t, engine(func(p *PDF) { p.MaxPages = 1 }))
		d.MaxPages = 1
		d.put(t, "in.pdf", string(whole))
		d.mustFail(t, jobs.Job{ID: "j", Input: "in.pdf"}, "document has 2 pages, at most 1 are allowed (MAX_PAGES)")
	})
	t.Run("the copy of the input is missing", func(t *testing.T) {
		err := engine(asIs).Read(t.Context(), jobs.Job{}, t.TempDir()+"/gone", 1, Sink{})
		if !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("read: %v, want ErrUnavailable", err)
		}
	})
}

func TestF74EnginesTakeTheSamePasswords(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	onEachEngine(t, func(t *testing.T, engine func(func(*PDF)) Engine) {
		for _, tt := range []struct{ file, password string }{
			{"aes-256-password.pdf", "user"},
			{"rc4-40-password.pdf", "user"},
			{"rc4-128-password.pdf", "owner"},
			{"aes-256.pdf", "not needed"},
			{"plain.pdf", "not needed"},
		} {
			t.Run(tt.file+" "+tt.password, func(t *testing.T) {
				t.Parallel()
				d := newFixture(t, engine(func(p *PDF) { p.Password = tt.password }))
				d.put(t, "in.pdf", string(testdata(t, tt.file)))
				d.mustRun(t, jobs.Job{ID: "j", Input: "in.pdf"})
				if recs := d.records(t); len(recs) != 1 || !strings.HasPrefix(recs[0].Text, "Attack at dawn") {
					t.Errorf("pages %+v", recs)
				}
			})
		}
	})
}

func TestF74EnginesReadTheSamePages(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	data := pdftest.Pages("one", "two", "three", "four", "five").Table("")
	tests := []struct {
		name       string
		from, last int
		want       string
	}{
		{"all", 1, 0, "one two three four five"},
		{"resume", 4, 0, "four five"},
		{"resume after the last page", 6, 0, ""},
		{"a range", 2, 3, "two three"},
		{"one page", 5, 5, "five"},
		{"more than there are", 4, 9, "four five"},
	}
	onEachEngine(t, func(t *testing.T, engine func(func(*PDF)) Engine) {
		for _, tt := range tests {
			for _, workers := range []int{0, 2} {
				t.Run(fmt.Sprintf("%s, %d workers", tt.name, workers), func(t *testing.T) {
					t.Parallel()
					pages, got, err := readAll(t, engine(func(p *PDF) { p.Last, p.Workers = tt.last, workers }), data, tt.from)
					if err != nil || pages != 5 || strings.Join(got, " ") != tt.want {
						t.Errorf("read %d pages, %q, %v; want %q of 5", pages, got, err, tt.want)
					}
				})
			}
		}
	})
}

// readAll returns what an engine says of a document: how many pages there are,
// and the texts of those it passes.
func readAll(t *testing.T, e Engine, data []byte, from int) (pages int, texts []string, err error) {
	t.Helper()
	err = e.Read(t.Context(), jobs.Job{}, onDisk(t, data), from, Sink{
		Open: func(n int, _ json.RawMessage) error { pages = n; return nil },
		Page: func(r Record) error { texts = append(texts, strings.TrimSpace(r.Text)); return nil },
	})
	return pages, texts, err
}

func TestF74EnginesStopWhenNobodyListens(t *testing.T) {
	t.Parallel()
	data := pdftest.Pages(lettered(300)...).Table("")
	onEachEngine(t, func(t *testing.T, engine func(func(*PDF)) Engine) {
		enough := errors.New("enough")
		seen := 0
		err := engine(asIs).Read(t.Context(), jobs.Job{}, onDisk(t, data), 1, Sink{
			Open: func(int, json.RawMessage) error { return nil },
			Page: func(Record) error {
				if seen++; seen == 3 {
					return enough
				}
				return nil
			},
		})
		if seen != 3 || !errors.Is(err, enough) {
			t.Errorf("read: %v after %d pages, want that of the sink after 3", err, seen)
		}
	})
}

func TestF74FormFeedsOfTheTextDoNotEndAPage(t *testing.T) {
	t.Parallel()
	pages, got, err := readAll(t, installed(t), feeds(), 1)
	if err != nil || pages != 2 || len(got) != 2 || got[1] != "second" {
		t.Errorf("read %d pages, %q, %v; want 2", pages, got, err)
	}
	if len(got) > 0 && !slices.Equal(strings.Fields(got[0]), []string{"xA", "y", "x", "By"}) {
		t.Errorf("first page %q", got[0])
	}
}
