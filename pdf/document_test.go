package pdf_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func open(tb testing.TB, data []byte, opts pdf.Options) *pdf.Document {
	tb.Helper()
	d, err := pdf.Open(bytes.NewReader(data), int64(len(data)), opts)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// text returns the text of all pages, which must not fail, between bars.
func text(tb testing.TB, d *pdf.Document) string {
	tb.Helper()
	var pages []string
	for p, err := range d.Pages(1, d.NumPages()) {
		if err != nil {
			tb.Error(err)
		}
		pages = append(pages, p.Text)
	}
	return strings.Join(pages, "|")
}

func fixture(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestF70FindsObjectsWhereverTheyAre(t *testing.T) {
	b := pdftest.Pages("first page\nof two", "second page")
	const want = "first page\nof two|second page"
	table := b.Table("")
	edit := func(old, replacement string) []byte {
		return bytes.Replace(table, []byte(old), []byte(replacement), 1)
	}
	tests := []struct {
		name string
		data []byte
	}{
		{"cross-reference table", table},
		{"cross-reference stream and object streams", b.Packed("")},
		{"hybrid file", b.Hybrid("")},
		{"rubbish before the header", append([]byte("HTTP/1.1 200 OK\r\n\r\n"), table...)},
		{"rubbish after the end", append(slices.Clone(table), bytes.Repeat([]byte("\x00"), 900)...)},
		{"wrong startxref", edit("startxref\n", "startxref\n9")},
		{"no startxref", edit("startxref", "startxxxx")},
		{"no trailer", edit("trailer", "trailxx")},
		{"no header", edit("%PDF-1.7", "%XXX-1.7")},
		{"cross-reference one byte off", edit("%PDF-1.7\n", "%PDF-1.7\n\n")},
		{"table that begins at object 1", edit("xref\n0 ", "xref\n1 ")},
		{"wrong offset of one object", replaceOffset(table)},
		{"streams without lengths", bytes.ReplaceAll(table, []byte("/Length "), []byte("/Xength "))},
		{"cut off before the table", table[:bytes.Index(table, []byte("xref\n0 "))]},
		{"object streams without a cross-reference", cutXref(b.Packed(""))},
		{"updated in place", update(b)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, tt.data, pdf.Options{})
			if got := text(t, d); d.NumPages() != 2 || got != want {
				t.Errorf("%d pages: %q, want %q", d.NumPages(), got, want)
			}
		})
	}
}

// replaceOffset makes the entry of object 3 lead into object 1.
func replaceOffset(table []byte) []byte {
	out := slices.Clone(table)
	at := bytes.Index(out, []byte("xref\n0 "))
	rows := bytes.Index(out[at:], []byte("65535 f \n")) + at + len("65535 f \n")
	copy(out[rows+2*20:], fmt.Sprintf("%010d", 20))
	return out
}

// cutXref drops the cross-reference stream of a packed file but for its
// dictionary's Root, which only it knows.
func cutXref(packed []byte) []byte {
	return packed[:bytes.LastIndex(packed, []byte("/W [1 4 2]"))]
}

// update appends a revision with the same content; the two tables are chained
// by Prev in a circle.
func update(b *pdftest.Builder) []byte {
	const nowhere = "/Prev 9999999999"
	out := b.Table(nowhere)
	first, at := bytes.Index(out, []byte("xref\n0 ")), len(out)
	out = append(out, "3 0 obj\n<</Type /Font /Subtype /Type1 /BaseFont /Courier>>\nendobj\n"...)
	start := len(out)
	out = fmt.Appendf(out, "xref\n3 1\n%010d 00000 n \ntrailer\n<</Size 9 /Root 1 0 R /Prev %d>>\nstartxref\n%d\n%%%%EOF\n", at, first, start)
	return bytes.Replace(out, []byte(nowhere), fmt.Appendf(nil, "/Prev %010d", start), 1)
}

func TestOpenTellsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name string
		data []byte
		want error
	}{
		{"empty file", nil, pdf.ErrNotPDF},
		{"text", []byte("Dear reader,\nthis object is not a PDF.\n"), pdf.ErrNotPDF},
		{"an image", append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 4000)...), pdf.ErrNotPDF},
		{"objects but no header and no pages", []byte("1 0 obj\n<</A 1>>\nendobj"), pdf.ErrNotPDF},
		{"header only", []byte("%PDF-1.4\n"), pdf.ErrDamaged},
		{"no catalog", []byte("%PDF-1.4\n1 0 obj\n<</A 1>>\nendobj"), pdf.ErrDamaged},
		{"page tree missing", (&pdftest.Builder{}).Table(""), pdf.ErrDamaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := pdf.Open(bytes.NewReader(tt.data), int64(len(tt.data)), pdf.Options{})
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestOpenReportsAReaderThatFails(t *testing.T) {
	_, err := pdf.Open(strings.NewReader("%PDF-1.4"), 100, pdf.Options{})
	if err == nil || errors.Is(err, pdf.ErrNotPDF) {
		t.Errorf("a file shorter than it should be gave %v", err)
	}
}

func TestDocumentWithoutPagesOpens(t *testing.T) {
	if d := open(t, pdftest.Pages().Table(""), pdf.Options{}); d.NumPages() != 0 {
		t.Errorf("%d pages, want 0", d.NumPages())
	}
}

func TestF70Encryption(t *testing.T) {
	tests := []struct{ name, file, password string }{
		{"RC4 of 40 bits, empty password", "rc4-40.pdf", ""},
		{"RC4 of 128 bits, empty password", "rc4-128.pdf", ""},
		{"AES of 128 bits, empty password", "aes-128.pdf", ""},
		{"AES of 128 bits, metadata in the clear", "aes-128-cleartext-metadata.pdf", ""},
		{"AES of 256 bits, empty password", "aes-256.pdf", ""},
		{"AES of 256 bits as Acrobat 9 had it", "aes-256-r5.pdf", ""},
		{"RC4 of 40 bits, user's password", "rc4-40-password.pdf", "user"},
		{"RC4 of 40 bits, owner's password", "rc4-40-password.pdf", "owner"},
		{"RC4 of 128 bits, user's password", "rc4-128-password.pdf", "user"},
		{"RC4 of 128 bits, owner's password", "rc4-128-password.pdf", "owner"},
		{"AES of 128 bits, a password that is not ASCII", "aes-128-umlaut.pdf", "schlüssel"},
		{"AES of 128 bits, owner's password", "aes-128-umlaut.pdf", "owner"},
		{"AES of 256 bits, user's password", "aes-256-password.pdf", "user"},
		{"AES of 256 bits, owner's password", "aes-256-password.pdf", "owner"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, fixture(t, tt.file), pdf.Options{Password: tt.password})
			const want = "Attack at dawn\nand not a minute later."
			if got := text(t, d); got != want {
				t.Errorf("text is %q, want %q", got, want)
			}
			info := d.Info()
			if info.Title != "Orders" || !info.Encrypted {
				t.Errorf("title %q, encrypted %v; want Orders, true", info.Title, info.Encrypted)
			}
		})
	}
}

func TestWrongPasswordIsRefused(t *testing.T) {
	for _, name := range []string{"rc4-40-password.pdf", "rc4-128-password.pdf", "aes-256-password.pdf"} {
		for _, password := range []string{"", "wrong", strings.Repeat("long", 50)} {
			data := fixture(t, name)
			_, err := pdf.Open(bytes.NewReader(data), int64(len(data)), pdf.Options{Password: password})
			if !errors.Is(err, pdf.ErrPassword) {
				t.Errorf("%s with password %.10q: %v, want ErrPassword", name, password, err)
			}
		}
	}
	b := pdftest.Pages("hidden")
	handler := b.Add("<</Filter /FopN_fLock /V 1>>")
	data := b.Table(fmt.Sprintf("/Encrypt %d 0 R", handler))
	if _, err := pdf.Open(bytes.NewReader(data), int64(len(data)), pdf.Options{}); !errors.Is(err, pdf.ErrPassword) {
		t.Errorf("unknown security handler: %v, want ErrPassword", err)
	}
}

func TestF70PageTree(t *testing.T) {
	page := func(b *pdftest.Builder, text string) int {
		return b.Add("<</Type /Page /Contents %d 0 R>>", b.Stream("", pdftest.Contents(text)))
	}
	tests := []struct {
		name, want string
		build      func(b *pdftest.Builder)
	}{
		{"nested", "a|b|c", func(b *pdftest.Builder) {
			inner := b.Add("<</Type /Pages /Kids [%d 0 R %d 0 R]>>", page(b, "b"), page(b, "c"))
			b.Set(2, "<</Type /Pages /Kids [%d 0 R %d 0 R] /Resources <</Font <</F 3 0 R>>>>>>", page(b, "a"), inner)
		}},
		{"in a circle", "a", func(b *pdftest.Builder) {
			b.Set(2, "<</Type /Pages /Kids [2 0 R %d 0 R 2 0 R] /Resources <</Font <</F 3 0 R>>>>>>", page(b, "a"))
		}},
		{"without types", "a", func(b *pdftest.Builder) {
			contents := b.Stream("", pdftest.Contents("a"))
			b.Set(2, "<</Kids [%d 0 R] /Resources <</Font <</F 3 0 R>>>>>>", b.Add("<</Contents %d 0 R>>", contents))
		}},
		{"with missing kids", "a", func(b *pdftest.Builder) {
			b.Set(2, "<</Type /Pages /Kids [99 0 R %d 0 R null] /Resources <</Font <</F 3 0 R>>>>>>", page(b, "a"))
		}},
		{"of direct pages", "a", func(b *pdftest.Builder) {
			contents := b.Stream("", pdftest.Contents("a"))
			b.Set(2, "<</Type /Pages /Kids [<</Type /Page /Contents %d 0 R>>] /Resources <</Font <</F 3 0 R>>>>>>", contents)
		}},
		{"lost, but not its pages", "a|b", func(b *pdftest.Builder) {
			for _, text := range []string{"a", "b"} {
				contents := b.Stream("", pdftest.Contents(text))
				b.Add("<</Type /Page /Contents %d 0 R /Resources <</Font <</F 3 0 R>>>>>>", contents)
			}
			b.Set(2, "null")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := pdftest.Pages("unused")
			tt.build(b)
			if tt.name == "lost, but not its pages" {
				b.Set(5, "null") // the page of the builder itself
			}
			if got := text(t, open(t, b.Table(""), pdf.Options{})); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A binary tree in which both kids are the same node has 2²⁰⁰ paths.
func TestPageGraphIsWalkedOnce(t *testing.T) {
	b := pdftest.Pages("only")
	leaf := 5
	for range 150 {
		leaf = b.Add("<</Type /Pages /Kids [%d 0 R %d 0 R]>>", leaf, leaf)
	}
	b.Set(2, "<</Type /Pages /Kids [%d 0 R] /Resources <</Font <</F 3 0 R>>>>>>", leaf)
	// The innermost node lists its page twice; every other is entered once.
	if got := text(t, open(t, b.Table(""), pdf.Options{})); got != "only|only" {
		t.Errorf("got %q", got)
	}
}

func TestMorePagesThanAllowed(t *testing.T) {
	data := pdftest.Pages("a", "b", "c").Table("")
	if _, err := pdf.Open(bytes.NewReader(data), int64(len(data)), pdf.Options{MaxPages: 2}); !errors.Is(err, pdf.ErrLimit) {
		t.Errorf("got %v, want ErrLimit", err)
	}
	open(t, data, pdf.Options{MaxPages: 3})
}

func TestF72HundredThousandPages(t *testing.T) {
	const pages = 100_000
	b := &pdftest.Builder{}
	b.Add("<</Type /Catalog /Pages 2 0 R>>")
	b.Add("")
	font := b.Add("<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>")
	contents := b.Stream("", pdftest.Contents("the same on every page"))
	var kids strings.Builder
	for range pages {
		fmt.Fprintf(&kids, "%d 0 R ", b.Add("<</Type /Page /Parent 2 0 R /Contents %d 0 R>>", contents))
	}
	b.Set(2, "<</Type /Pages /Count %d /Kids [%s] /Resources <</Font <</F %d 0 R>>>>>>", pages, kids.String(), font)
	data := b.Packed("")

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := open(t, data, pdf.Options{})
	if d.NumPages() != pages {
		t.Fatalf("%d pages, want %d", d.NumPages(), pages)
	}
	read := 0
	for p, err := range d.Pages(pages-2000, pages) {
		if err != nil || p.Text != "the same on every page" {
			t.Fatalf("page %d: %q, %v", p.Number, p.Text, err)
		}
		read++
	}
	if read != 2001 {
		t.Errorf("read %d pages, want 2001", read)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 60<<20 {
		t.Errorf("the open document holds %d MiB", held>>20)
	}
	runtime.KeepAlive(d)
}

func TestF70PagesWithoutATreeInheritFromTheirParents(t *testing.T) {
	b := pdftest.Pages("found")
	b.Set(1, "<</Type /Catalog>>")
	if p, err := open(t, b.Table(""), pdf.Options{}).Page(1); err != nil || p.Text != "found" {
		t.Errorf("got %q, %v", p.Text, err)
	}
	b.Set(2, "<</Type /Pages /Kids [5 0 R] /MediaBox [0 0 9 9] /Resources <</Font <</F 3 0 R>>>>>>")
	if p, err := open(t, b.Table(""), pdf.Options{}).Page(1); err != nil || p.Text != "" {
		t.Errorf("beside the page: got %q, %v; want no text", p.Text, err)
	}
}

func TestF70PageThatIsLostKeepsItsNumber(t *testing.T) {
	b := pdftest.Pages("one", "two", "three")
	for _, tt := range []struct{ name, kids string }{
		{"missing", "[5 0 R 99 0 R 9 0 R]"},
		{"null", "[5 0 R null 9 0 R]"},
		{"a number", "[5 0 R 7 9 0 R]"},
	} {
		b.Set(2, "<</Type /Pages /Count 3 /Kids %s /Resources <</Font <</F 3 0 R>>>>>>", tt.kids)
		d := open(t, b.Table(""), pdf.Options{})
		if d.NumPages() != 3 {
			t.Errorf("%s: %d pages, want 3", tt.name, d.NumPages())
			continue
		}
		if p, err := d.Page(2); err == nil || !strings.Contains(err.Error(), "missing") {
			t.Errorf("%s: page 2 is %q, %v", tt.name, p.Text, err)
		}
		if p, err := d.Page(3); err != nil || p.Text != "three" {
			t.Errorf("%s: page 3 is %q, %v", tt.name, p.Text, err)
		}
	}
	b.Set(2, "<</Type /Pages /Count 2 /Kids [99 0 R null]>>") // nothing is left of the tree
	if d := open(t, b.Table(""), pdf.Options{}); d.NumPages() != 3 {
		t.Errorf("without a tree: %d pages, want the three there are", d.NumPages())
	}
}
