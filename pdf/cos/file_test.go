package cos_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func open(t *testing.T, data []byte) *cos.File {
	t.Helper()
	f, err := cos.Open(data, cos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// stream opens a file with one stream that has the given entries and returns
// what it decodes to.
func stream(t *testing.T, dict, data string) (string, error) {
	t.Helper()
	b := pdftest.Pages()
	n := b.Stream(dict, data)
	f := open(t, b.Table(""))
	got, err := f.Decode(f.Stream(cos.Ref{Num: uint32(n)}))
	return string(got), err
}

func TestF70FilterChains(t *testing.T) {
	flate := pdftest.Deflate("hello")
	predicted := pdftest.Deflate("\x02he\x02\x04\x07")
	tests := []struct{ name, dict, data, want string }{
		{"none", "", "hello", "hello"},
		{"one", "/Filter /FlateDecode", flate, "hello"},
		{"one in an array", "/Filter [/FlateDecode]", flate, "hello"},
		{"two", "/Filter [/AHx /Fl]", fmt.Sprintf("%x>", flate), "hello"},
		{"parameters of the second", "/Filter [/AHx /Fl] /DecodeParms [null <</Predictor 12 /Columns 2>>]", fmt.Sprintf("%x>", predicted), "hell"},
		{"the file of an external stream is no filter", "/F (elsewhere)", "hello", "hello"},
		{"crypt filter of an open file", "/Filter /Crypt", "open", "open"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := stream(t, tt.dict, tt.data); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestImagesAreNotDecoded(t *testing.T) {
	if got, err := stream(t, "/Filter /DCTDecode", "\xff\xd8"); !errors.Is(err, cos.ErrFilter) || got != "" {
		t.Errorf("got %q, %v; want ErrFilter", got, err)
	}
}

func TestStreamEndsWhereItDoes(t *testing.T) {
	tests := []struct{ name, body string }{
		{"length right", "<</Length 5>>\nstream\nhello\nendstream"},
		{"length too short", "<</Length 2>>\nstream\nhello\nendstream"},
		{"length too long", "<</Length 50>>\nstream\nhello\nendstream"},
		{"length negative", "<</Length -1>>\nstream\nhello\nendstream"},
		{"length missing", "<<>>\nstream\nhello\r\nendstream"},
		{"length elsewhere", "<</Length 4 0 R>>\nstream\r\nhello\nendstream"},
		{"length nowhere", "<</Length 9 0 R>>\nstream\nhello\nendstream"},
		{"length of itself", "<</Length 3 0 R>>\nstream\nhello\nendstream"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := pdftest.Pages()
			b.Set(3, "%s", tt.body)
			b.Add("5")
			f := open(t, b.Table(""))
			if got, err := f.Decode(f.Stream(cos.Ref{Num: 3})); err != nil || string(got) != "hello" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestReferencesInACircleAreNull(t *testing.T) {
	b := pdftest.Pages()
	b.Set(3, "4 0 R")
	b.Add("3 0 R")
	f := open(t, b.Table(""))
	if o := f.Resolve(cos.Ref{Num: 3}); o != nil {
		t.Errorf("got %v", o)
	}
}

// A budget that ran out must not leave half-read objects in the cache.
func TestBudget(t *testing.T) {
	b := pdftest.Pages()
	n := b.Flate("", strings.Repeat("x", 1000))
	later := b.Add("(here)")
	f := open(t, b.Table(""))
	s := f.Stream(cos.Ref{Num: uint32(n)})
	f.SetBudget(100)
	if got, err := f.Decode(s); len(got) > 100 || err == nil {
		t.Errorf("%d bytes under a budget of 100, %v", len(got), err)
	}
	_, _ = f.Decode(s)
	f.SetBudget(1)
	if got := f.String(cos.Ref{Num: uint32(later)}); f.BudgetErr() == nil {
		t.Errorf("read %q under a budget of 1", got)
	}
	f.SetBudget(10_000)
	if got, err := f.Decode(s); len(got) != 1000 || err != nil || f.BudgetErr() != nil {
		t.Errorf("%d bytes under a new budget, %v", len(got), err)
	}
	if got := f.String(cos.Ref{Num: uint32(later)}); got != "here" {
		t.Errorf("got %q, want here", got)
	}
}

// Every one of these can be read without looking at the whole file.
func TestF70CrossReferencesAreUsed(t *testing.T) {
	b := pdftest.Pages("text")
	table := b.Table("")
	for name, data := range map[string][]byte{
		"table":                         table,
		"stream":                        b.Packed(""),
		"hybrid":                        b.Hybrid(""),
		"table that begins at object 1": bytes.Replace(table, []byte("xref\n0 "), []byte("xref\n1 "), 1),
		"rubbish before the header":     append([]byte("rubbish"), table...),
	} {
		f := open(t, data)
		if f.Rebuilt() {
			t.Errorf("%s: the cross-reference was rebuilt", name)
		}
		if kids := f.Array(f.Dict(cos.Ref{Num: 2})["Kids"]); len(kids) != 1 || f.Dict(kids[0])["Type"] != cos.Name("Page") {
			t.Errorf("%s: the page tree is %v", name, f.Dict(cos.Ref{Num: 2}))
		}
		if bad := f.Resolve(cos.Ref{Num: 3}); f.Dict(bad)["BaseFont"] != cos.Name("Helvetica") {
			t.Errorf("%s: object 3 is %v", name, bad)
		}
	}
}

// Eight million entries take 8 KB in a compressed cross-reference.
func TestCrossReferenceOfZerosIsRefused(t *testing.T) {
	rows := pdftest.Deflate(strings.Repeat("\x00", 8_000_000))
	data := fmt.Appendf(nil, "%%PDF-1.7\n1 0 obj<</Type/XRef/Size 8000000/W[0 0 1]/Root 1 0 R/Filter/FlateDecode/Length %d>>stream\n%s\nendstream endobj\nstartxref\n9\n", len(rows), rows)
	var f *cos.File
	if used := pdftest.Allocated(func() { f = open(t, data) }) >> 20; used > 100 || len(f.Objects()) > 1 {
		t.Errorf("%d MiB for %d bytes, %d objects", used, len(data), len(f.Objects()))
	}
}

func TestNestingIsBounded(t *testing.T) {
	for _, open := range []string{"[", "<</A", "[<</A"} {
		o, _, _ := cos.NewParser([]byte(strings.Repeat(open, 100_000))).Next()
		depth := 0
		for o != nil {
			depth++
			switch v := o.(type) {
			case cos.Array:
				o = nil
				if len(v) > 0 {
					o = v[0]
				}
			case cos.Dict:
				o = v["A"]
			}
		}
		if depth < 50 || depth > 101 {
			t.Errorf("%s…: nested %d deep", open, depth)
		}
	}
}

func TestNewestRevisionWins(t *testing.T) {
	b := pdftest.Pages()
	b.Set(3, "(old)")
	data := b.Table("")
	first := strings.LastIndex(string(data), "xref\n0 ")
	at := len(data)
	data = append(data, "3 0 obj\n(new)\nendobj\n"...)
	start := len(data)
	data = fmt.Appendf(data, "xref\n3 1\n%010d 00000 n \ntrailer\n<</Root 1 0 R /Prev %d>>\nstartxref\n%d\n", at, first, start)
	scanned := bytes.ReplaceAll(data, []byte("xref"), []byte("????"))
	for name, data := range map[string][]byte{"by the tables": data, "by a scan": scanned} {
		f := open(t, data)
		if got := f.String(cos.Ref{Num: 3}); got != "new" {
			t.Errorf("%s: got %q, want new", name, got)
		}
	}
}

func TestF70RebuildTakesWhatWasWrittenLast(t *testing.T) {
	packed := func(text string) string {
		body := "7 0 (" + text + ")"
		return fmt.Sprintf("<</Type /ObjStm /N 1 /First 4 /Length %d>>\nstream\n%s\nendstream", len(body), body)
	}
	tests := []struct{ name, file, want string }{
		{"packed after plain", "7 0 obj (old) endobj\n9 0 obj " + packed("new") + " endobj\n", "new"},
		{"plain after packed", "9 0 obj " + packed("old") + " endobj\n7 0 obj (new) endobj\n", "new"},
		{"packed after packed", "9 0 obj " + packed("old") + " endobj\n8 0 obj " + packed("new") + " endobj\n", "new"},
		{"plain after plain", "7 0 obj (old) endobj\n7 0 obj (new) endobj\n", "new"},
	}
	for _, tt := range tests {
		f := open(t, []byte("%PDF-1.5\n1 0 obj <</Type /Catalog>> endobj\n"+tt.file))
		if got := f.String(cos.Ref{Num: 7}); string(got) != tt.want || !f.Rebuilt() {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestF70RebuildKeepsOfTrailersWhatLeadsSomewhere(t *testing.T) {
	var file strings.Builder
	file.WriteString("%PDF-1.5\n1 0 obj <</Type /Catalog>> endobj\n")
	for i := range 50 {
		fmt.Fprintf(&file, "trailer <</Info %d 0 R /K%d (", i, i) // a string to the end of the file
	}
	f := open(t, []byte(file.String()))
	if want := (cos.Dict{"Root": cos.Ref{Num: 1}, "Info": cos.Ref{Num: 49}}); fmt.Sprint(f.Trailer) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", f.Trailer, want)
	}
}
