package pdf_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// wholeDocuments are healthy files, of printing programs and built here, by
// their names.
func wholeDocuments(t *testing.T) map[string][]byte {
	t.Helper()
	files := originals(t)
	for name, data := range builtDocuments() {
		if name != "cut off" && name != "wrong startxref" {
			files["built "+name] = data
		}
	}
	files["updated"] = updated()
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		// No other documents open without a password.
		return strings.Contains(name, "password") || strings.Contains(name, "umlaut")
	})
	return files
}

// updated returns a file to which a second page text was appended, as editors do.
func updated() []byte {
	file := pdftest.Pages("before the update", "a second page").Table("")
	end := len(file)
	contents := pdftest.Contents("after the update")
	file = fmt.Appendf(file, "4 0 obj\n<</Length %d>>\nstream\n%s\nendstream\nendobj\n", len(contents), contents)
	start := len(file)
	previous := bytes.LastIndex(file[:end], []byte("xref\n0 "))
	return fmt.Appendf(file, "xref\n4 1\n%010d 00000 n \ntrailer\n<</Size 8 /Root 1 0 R /Prev %d>>\nstartxref\n%d\n%%%%EOF\n", end, previous, start)
}

// reading is all that a file yields.
type reading struct {
	texts    []string
	warnings []string
}

func readWhole(data []byte) (r reading, err error) {
	d, err := pdf.Open(bytes.NewReader(data), int64(len(data)), pdf.Options{})
	if err != nil {
		return r, err
	}
	_, _ = d.Info(), d.Outline() // whose damage is the document's
	r.warnings = d.Warnings()
	for p, err := range d.Pages(1, d.NumPages()) {
		if err != nil {
			r.warnings = append(r.warnings, err.Error())
		}
		r.texts = append(r.texts, p.Text)
		r.warnings = append(r.warnings, p.Warnings...)
	}
	return r, nil
}

func TestF76HealthyDocumentsHaveNoWarnings(t *testing.T) {
	for name, data := range wholeDocuments(t) {
		if r, err := readWhole(data); err != nil || len(r.warnings) > 0 || len(r.texts) == 0 {
			t.Errorf("%s: %d pages, warnings %q, %v", name, len(r.texts), r.warnings, err)
		}
	}
}

var (
	objectHead = regexp.MustCompile(`(?m)^\d+ \d+ obj\b`)
	flateData  = regexp.MustCompile(`/FlateDecode[^%]{0,200}?stream\r?\n`)
)

// damages yields damaged copies of data, and what was done to them.
func damages(random *rand.Rand, data []byte, yield func(what string, damaged []byte)) {
	for percent := 5; percent < 100; percent += 5 {
		at := len(data) * percent / 100
		yield(fmt.Sprintf("cut at %d %%", percent), data[:at:at])
	}
	without := func(what string, from, to int) {
		damaged := bytes.Clone(data)
		copy(damaged[from:to], bytes.Repeat([]byte{' '}, to-from))
		yield(fmt.Sprintf("without %s at %d", what, from), damaged)
	}
	for _, head := range objectHead.FindAllIndex(data, -1) {
		if end := bytes.Index(data[head[0]:], []byte("endobj")); end > 0 {
			without("the object", head[0], head[0]+end+len("endobj"))
		}
	}
	for _, head := range flateData.FindAllIndex(data, -1) {
		end := bytes.Index(data[head[1]:], []byte("endstream"))
		if end < 1 {
			continue
		}
		for try := range 4 {
			at := head[1] + random.IntN(end)
			if try == 0 {
				at = head[1] // what says that it is compressed
			}
			damaged := bytes.Clone(data)
			damaged[at] ^= 1 << random.IntN(8)
			yield(fmt.Sprintf("a bit flipped at %d", at), damaged)
		}
	}
}

func TestF76NoTextIsLostInSilence(t *testing.T) {
	for name, data := range wholeDocuments(t) {
		t.Run(name, func(t *testing.T) {
			whole, err := readWhole(data)
			if err != nil {
				t.Fatal(err)
			}
			tried, warned := 0, 0
			damages(rand.New(rand.NewPCG(7, uint64(len(data)))), data, func(what string, damaged []byte) {
				tried++
				r, err := readWhole(damaged)
				if err != nil || len(r.warnings) > 0 {
					warned++
				} else if !slices.Equal(r.texts, whole.texts) {
					t.Errorf("%s: read %.100q without a warning, want %.100q", what, r.texts, whole.texts)
				}
			})
			if warned < tried/2 { // a cut of the last line may do no harm
				t.Errorf("%d of %d damaged copies gave a warning or an error", warned, tried)
			}
		})
	}
}

func TestF76WarningsNameTheDamageAndItsPages(t *testing.T) {
	const rebuilt = "the cross-reference was rebuilt from the objects that are there"
	// Pages are objects 5, 7 and 9; each has its contents before it.
	three := func(set func(b *pdftest.Builder)) []byte {
		b := pdftest.Pages("one", "two", "three")
		set(b)
		return b.Table("")
	}
	plain := three(func(*pdftest.Builder) {})
	replaced := func(old, replacement string) []byte { return bytes.Replace(plain, []byte(old), []byte(replacement), 1) }
	const elsewhere = "object 7 is not where the cross-reference says"
	page := bytes.Index(plain, []byte("7 0 obj"))
	row := func(offset int) []byte { return fmt.Appendf(nil, "%010d 00000 n", offset) }
	stream := func(filter, data string) string {
		return fmt.Sprintf("<<%s /Length %d>>\nstream\n%s\nendstream", filter, len(data), data)
	}
	second := func(contents string) []byte {
		return three(func(b *pdftest.Builder) { b.Set(6, "%s", stream("", "BT /F 12 Tf 72 700 Td "+contents)) })
	}
	packed := pdftest.Deflate(pdftest.Contents("two"))
	badSum := packed[:len(packed)-1] + string(packed[len(packed)-1]^1)
	const flate = "/Filter /FlateDecode"
	partOf := func(objects ...int) string {
		var said []string
		for _, n := range objects {
			said = append(said, fmt.Sprintf("object %d is part of object 10, which is damaged", n))
		}
		return strings.Join(said, "|")
	}
	const cutMap = "object 10 is cut off|a CMap of a font is cut off"
	tests := []struct {
		name     string
		data     []byte
		document []string
		pages    [3]string // the warnings of each, between bars
	}{
		{"no startxref", replaced("startxref", "startxxxx"), []string{rebuilt}, [3]string{}},
		{"count too large", replaced("/Count 3", "/Count 5"), []string{"the page tree has 3 pages, not 5 as it says"}, [3]string{}},
		{"no font", three(func(b *pdftest.Builder) { b.Set(3, "null") }), nil, [3]string{"a font is missing", "a font is missing", "a font is missing"}},
		{"no contents", three(func(b *pdftest.Builder) { b.Set(6, "null") }), nil, [3]string{1: "the contents are missing"}},
		{"half of the contents", three(func(b *pdftest.Builder) { b.Set(7, "<</Type /Page /Parent 2 0 R /Contents [6 0 R 99 0 R]>>") }), nil, [3]string{1: "some of the contents are missing"}},
		{"no resources", three(func(b *pdftest.Builder) { b.Set(7, "<</Type /Page /Parent 2 0 R /Resources 99 0 R /Contents 6 0 R>>") }), nil, [3]string{1: "the resources are missing|a font is missing"}},
		{"no ToUnicode", three(func(b *pdftest.Builder) {
			b.Set(3, "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 99 0 R>>")
		}), nil, [3]string{"the ToUnicode of a font is missing", "the ToUnicode of a font is missing", "the ToUnicode of a font is missing"}},
		{"contents cut", three(func(b *pdftest.Builder) { b.Set(6, "%s", stream(flate, packed[:len(packed)/2])) }), nil, [3]string{1: "decode stream 6: inflate stream: unexpected EOF|the contents break off"}},
		{"contents changed", three(func(b *pdftest.Builder) { b.Set(6, "%s", stream(flate, badSum)) }), nil, [3]string{1: "decode stream 6: inflate stream: wrong checksum"}},
		{"contents of another filter", three(func(b *pdftest.Builder) { b.Set(6, "%s", stream("/Filter /Unheard", "x")) }), nil, [3]string{1: `decode stream 6: unsupported filter "Unheard"`}},
		{"contents without their filter", three(func(b *pdftest.Builder) { b.Set(6, "%s", stream("/Fixter /FlateDecode", packed)) }), nil, [3]string{1: "the contents have an unknown operator"}},
		{"a wrong length", three(func(b *pdftest.Builder) { b.Set(6, "<</Length 7>>\nstream\n%s\nendstream", pdftest.Contents("two")) }), nil, [3]string{1: "object 6 has a wrong length"}},
		{"a ToUnicode cut", three(func(b *pdftest.Builder) {
			cmap := b.Stream("", "begincmap 1 beginbfchar <41> <0042> endbfchar")
			b.Set(3, "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode %d 0 R>>", cmap)
		}), nil, [3]string{"a CMap of a font is cut off", "a CMap of a font is cut off", "a CMap of a font is cut off"}},
		{"no page tree", replaced("/Kids", "/Kits"), []string{rebuilt, "the page tree is lost, and with it perhaps pages: those found are in the order of their numbers"}, [3]string{"the page number is guessed", "the page number is guessed", "the page number is guessed"}},
		{"an object stream changed", changedSum(t, pdftest.Pages("one", "two", "three").Packed("")), []string{
			"decode stream 10: inflate stream: wrong checksum", "object 1 is part of object 10, which is damaged", "object 2 is part of object 10, which is damaged",
			"object 5 is part of object 10, which is damaged", "object 7 is part of object 10, which is damaged", "object 9 is part of object 10, which is damaged",
		}, [3]string{partOf(5, 3), partOf(7, 3), partOf(9, 3)}},
		{"a table cut short", replaced("xref\n0 10", "xref\n0 12"), []string{"the cross-reference is shorter than it says"}, [3]string{}},
		{"a cross-reference stream cut short", bytes.Replace(pdftest.Pages("one", "two", "three").Packed(""), []byte("/Size 12"), []byte("/Size 99"), 1), []string{"the cross-reference is shorter than it says"}, [3]string{}},
		{"a branch lost", three(func(b *pdftest.Builder) {
			b.Set(2, "<</Type /Pages /Count 5 /Kids [5 0 R 7 0 R 9 0 R 99 0 R] /Resources <</Font <</F 3 0 R>>>>>>")
		}), []string{"a part of the page tree is missing", "the page tree has 3 pages, not 5 as it says"}, [3]string{}},
		{"a stream cut", bytes.TrimSuffix(cutAt(three(func(b *pdftest.Builder) {
			cmap := b.Stream("", "begincmap 1 beginbfchar <41> <0042> endbfchar endcmap")
			b.Set(3, "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode %d 0 R>>", cmap)
		}), " endbfchar"), []byte(" ")), []string{rebuilt}, [3]string{cutMap, cutMap, cutMap}},
		{"a key without its slash", three(func(b *pdftest.Builder) { b.Set(7, "<</Type /Page /Parent 2 0 R Contents 6 0 R>>") }), []string{"object 7 has broken syntax"}, [3]string{1: "object 7 has broken syntax"}},
		{"no font program", three(func(b *pdftest.Builder) {
			b.Set(3, "<</Type /Font /Subtype /Type1 /BaseFont /Odd /FontDescriptor %d 0 R>>", b.Add("<</FontFile 99 0 R>>"))
		}), nil, [3]string{"the FontFile of a font is missing", "the FontFile of a font is missing", "the FontFile of a font is missing"}},
		{"metadata cut", func() []byte {
			b := pdftest.Pages("one", "two", "three")
			return b.Table(fmt.Sprintf("/Info %d 0 R", b.Add("<</Title (cut)")))
		}(), nil, [3]string{}},
		{"a form lost", three(func(b *pdftest.Builder) { b.Set(6, "%s", stream("", "/Fm Do")) }), nil, [3]string{1: `what the page draws as "Fm" is missing`}},
		{"an open dictionary", three(func(b *pdftest.Builder) { b.Set(7, "<</Type /Page /Parent 2 0 R /Contents 6 0 R") }), []string{"object 7 is cut off"}, [3]string{1: "object 7 is cut off"}},
		{"a page elsewhere", bytes.Replace(plain, row(page), row(page+1), 1), []string{elsewhere}, [3]string{1: elsewhere}},
		{"an inline image without its end", second("(two) Tj BI /W 1 /H 1 ID \xff"), nil, [3]string{1: "an inline image has no end"}},
		{"an inline image without its data", second("(two) Tj BI /W 1 /H 1"), nil, [3]string{1: "an inline image has no end"}},
		{"a string without its end", second("(two) Tj (three Tj ET"), nil, [3]string{1: "the contents break off"}},
		{"an object that nests too deep", three(func(b *pdftest.Builder) {
			b.Set(7, "<</Type /Page /Parent 2 0 R /Contents 6 0 R /Deep %s%s>>", strings.Repeat("[", 200), strings.Repeat("]", 200))
		}), []string{"object 7 is cut off"}, [3]string{1: "object 7 is cut off"}},
		{"a dictionary that nests too deep", three(func(b *pdftest.Builder) {
			b.Set(7, "<</Type /Page /Parent 2 0 R /Contents 6 0 R /Deep %s%s>>", strings.Repeat("<</Deep ", 200), strings.Repeat(">>", 200))
		}), []string{"object 7 is cut off"}, [3]string{1: "object 7 is cut off"}},
		{"forms that nest too deep", three(func(b *pdftest.Builder) {
			const text = "BT /F 12 Tf (form) Tj ET"
			form := b.Stream("/Subtype /Form", text)
			for range 20 {
				form = b.Stream(fmt.Sprintf("/Subtype /Form /Resources <</Font <</F 3 0 R>> /XObject <</X %d 0 R>>>>", form), text+" /X Do")
			}
			b.Set(7, "<</Type /Page /Parent 2 0 R /Contents %d 0 R /Resources <</XObject <</X %d 0 R>>>>>>", b.Stream("", "/X Do"), form)
		}), nil, [3]string{1: "forms nest more than 20 deep"}},
		{"an operator with too many operands", second("[" + strings.Repeat("(a)", 1<<16+1) + "] TJ"), nil, [3]string{1: "an operator has more than 65536 operands"}},
		{"as many operands as are allowed", second("[" + strings.Repeat("(a)", 1<<16) + "] TJ"), nil, [3]string{}},
		{"too many annotations", three(func(b *pdftest.Builder) {
			b.Set(7, "<</Type /Page /Parent 2 0 R /Contents 6 0 R /Annots [%s]>>", strings.Repeat("0 ", 10_001))
		}), nil, [3]string{1: "the page has more than 10000 annotations"}},
		{"damaged layers", three(func(b *pdftest.Builder) {
			group := b.Add("<</Type /OCG>>")
			b.Set(1, "<</Type /Catalog /Pages 2 0 R /OCProperties %d 0 R>>", b.Add("<</D <</OFF [%d 0 R]>>", group))
			for _, contents := range []int{4, 6, 8} {
				b.Set(contents, "%s", stream("", "/OC /Layer BDC EMC"))
			}
			b.Set(2, "<</Type /Pages /Count 3 /Kids [5 0 R 7 0 R 9 0 R] /Resources <</Properties <</Layer %d 0 R>>>>>>", group)
		}), nil, [3]string{"object 11 is cut off", "object 11 is cut off", "object 11 is cut off"}},
		{"an update cut", updated()[:len(updated())-100], []string{"the file ends in the middle of an update"}, [3]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, tt.data, pdf.Options{})
			if diff := cmp.Diff(tt.document, d.Warnings()); diff != "" {
				t.Errorf("warnings of the document (-want +got):\n%s", diff)
			}
			d.Info()      // what is wrong with it is of no page
			for range 2 { // what is cached is damaged as well
				for n := range d.NumPages() {
					p, _ := d.Page(n + 1)
					if got := strings.Join(p.Warnings, "|"); got != tt.pages[n] {
						t.Errorf("page %d: warnings %q, want %q", n+1, got, tt.pages[n])
					}
				}
			}
		})
	}
}

func TestF76DamageOfMetadataAndOutlineIsOfTheDocument(t *testing.T) {
	b := outlined("<</Title (One)", "<</Title (Two) /Dest [5 0 R /Fit]>>")
	b.Set(10, "<</Title (One) /Next 11 0 R")
	info := b.Add("<</Title (cut)")
	d := open(t, b.Table(fmt.Sprintf("/Info %d 0 R", info)), pdf.Options{})
	for range 2 { // what is said again counts once
		d.Info()
		d.Outline()
	}
	want := []string{fmt.Sprintf("object %d is cut off", info), "object 10 is cut off"}
	if diff := cmp.Diff(want, d.Warnings()); diff != "" {
		t.Errorf("warnings of the document (-want +got):\n%s", diff)
	}
}

// changedSum changes the checksum of the first compressed stream after "/ObjStm".
func changedSum(t *testing.T, data []byte) []byte {
	t.Helper()
	at := bytes.Index(data, []byte("/ObjStm"))
	if at < 0 {
		t.Fatal("no object stream")
	}
	data[at+bytes.Index(data[at:], []byte("\nendstream"))-1] ^= 1
	return data
}

// cutAt returns data up to where text stands in it.
func cutAt(data []byte, text string) []byte { return data[:bytes.Index(data, []byte(text))] }

func TestF76WarningsAreBounded(t *testing.T) {
	b := pdftest.Pages("")
	var contents, forms strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&contents, "/%d%s Do /Fm%d Do ", i, strings.Repeat("long", 100), i)
		fmt.Fprintf(&forms, "/Fm%d %d 0 R ", i, b.Add("<</Subtype /Form /Length 9>>\nstream\n0 Tc\nendstream"))
	}
	b.Set(5, "<</Type /Page /Parent 2 0 R /Contents 4 0 R /Resources <</XObject <<%s>>>>>>", forms.String())
	b.Set(4, "<</Length %d>>\nstream\n%s\nendstream", contents.Len(), contents.String())
	p, err := open(t, b.Table(""), pdf.Options{}).Page(1)
	if err != nil || len(p.Warnings) != 8 || len(p.Warnings[0]) > 200 {
		t.Errorf("%d warnings, the first %q, %v", len(p.Warnings), p.Warnings, err)
	}
}
