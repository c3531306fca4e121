package pdf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/pdf"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// Each of these files is small and costs its reader little. Without the charge
// to the budget that it is about, it would cost many minutes: then the test
// runs into its time limit.
func TestF70SmallFilesCannotCostMuch(t *testing.T) {
	testrun.Once(t, "it is about the use of CPU and memory")
	opts := pdf.Options{MaxStreamBytes: 8 << 20, MaxPageBytes: 8 << 20, MaxTextBytes: 1 << 20}
	for _, tt := range []struct {
		name string
		data func() []byte
	}{
		{"a comment after each object, to the end of the file", commentAfterObjects},
		{"trailers that swallow those after them", swallowingTrailers},
		{"nodes that share their kids", sharedKids},
		{"contents that decode to nothing", emptyContents},
		{"rows of a predictor wider than their data", widePredictor},
		{"an actual text for every operator", actualTexts},
		{"layers beyond the budget", layersBeyondBudget},
		{"a long list of widths for every form", fontPerForm},
		{"a charset before the program", charsetBeforeProgram},
		{"inline images without an end", imagesWithoutEnd},
		{"a table of characters searched for every code", segmentsWithoutEnd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			readAll(t, tt.data(), opts)
		})
	}
}

// onePage returns a file with a page of these entries, object 3, whose objects
// are in b from 4 on.
func onePage(b *pdftest.Builder, catalog, page string, args ...any) []byte {
	b.Set(1, "<</Type /Catalog /Pages 2 0 R %s>>", catalog)
	b.Set(2, "<</Type /Pages /Count 1 /Kids [3 0 R]>>")
	b.Set(3, "<</Type /Page "+page+">>", args...)
	return b.Table("")
}

// threeObjects returns a builder with room for what onePage sets.
func threeObjects() *pdftest.Builder {
	b := &pdftest.Builder{}
	for range 3 {
		b.Add("null")
	}
	return b
}

func commentAfterObjects() []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n")
	for n := range 300_000 {
		fmt.Fprintf(&out, "%d 0 obj<<>>%%", n+1)
	}
	return out.Bytes()
}

func swallowingTrailers() []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n")
	for range 150_000 {
		next := out.Len() + 60
		fmt.Fprintf(&out, "%-60s", fmt.Sprintf("xref trailer <</Root 1 0 R/Prev %010d/A(", next))
	}
	out.WriteString("xref trailer <</Root 1 0 R>>\nstartxref\n9\n%%EOF\n")
	return out.Bytes()
}

func sharedKids() []byte {
	b := &pdftest.Builder{}
	b.Add("<</Type /Catalog /Pages 2 0 R>>")
	b.Add("null")
	b.Add("[%s]", strings.Repeat("2 0 R ", 60_000)) // as many as are kept
	var kids strings.Builder
	for range 20_000 {
		fmt.Fprintf(&kids, "%d 0 R ", b.Add("<</Type /Pages /Kids 3 0 R>>"))
	}
	b.Set(2, "<</Type /Pages /Kids [%s]>>", kids.String())
	return b.Packed("")
}

func emptyContents() []byte {
	b := threeObjects()
	blocks := "\x78\x9c" + strings.Repeat("\x00\x00\x00\xff\xff", 20_000) + "\x01\x00\x00\xff\xff"
	n := b.Stream("/Filter /FlateDecode", blocks)
	return onePage(b, "", "/Contents [%s]", strings.Repeat(fmt.Sprintf("%d 0 R ", n), 1_000_000))
}

func widePredictor() []byte {
	b := threeObjects()
	n := b.Flate("/DecodeParms <</Predictor 12 /Columns 16777216>>", "\x00 ")
	return onePage(b, "", "/Contents [%s]", strings.Repeat(fmt.Sprintf("%d 0 R ", n), 1_000_000))
}

func actualTexts() []byte {
	b := threeObjects()
	text := b.Add("<</ActualText (\xfe\xff%s)>>", strings.Repeat("\x00\x1b\x00a\x00\x1b\x00b", 8190))
	n := b.Flate("", strings.Repeat("/S/P BDC EMC ", 600_000))
	return onePage(b, "", "/Contents %d 0 R /Resources <</Properties <</P %d 0 R>>>>", n, text)
}

func layersBeyondBudget() []byte {
	b := threeObjects()
	group := b.Add("<</Type /OCG>>")
	n := b.Flate("", strings.Repeat("/OC/P BDC EMC ", 550_000))
	bomb := b.Flate("", strings.Repeat(" ", 8<<20))
	return onePage(b, fmt.Sprintf("/OCProperties <</OCGs [] /D <</OFF [%s]>>>>", strings.Repeat(fmt.Sprintf("%d 0 R ", group), 90_000)),
		"/Contents [%d 0 R %d 0 R] /Resources <</Properties <</P %d 0 R>>>>", n, bomb, group)
}

func imagesWithoutEnd() []byte {
	b := threeObjects()
	n := b.Flate("", strings.Repeat("BI ID \xffEI\xff ", 500_000))
	return onePage(b, "", "/Contents %d 0 R", n)
}

func fontPerForm() []byte {
	b := threeObjects()
	widths := b.Add("[%s]", strings.Repeat("1 1 1 ", 600_000))
	font := b.Add("<</Type /Font /Subtype /CIDFontType2 /W %d 0 R>>", widths)
	form := b.Stream(fmt.Sprintf("/Type /XObject /Subtype /Form /Resources <</Font <</F <</Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [%d 0 R]>>>>>>", font), "/F 1 Tf")
	n := b.Flate("", strings.Repeat("/X Do ", 100_000))
	return onePage(b, "", "/Contents %d 0 R /Resources <</XObject <</X %d 0 R>>>>", n, form)
}

// fonts returns a page that shows codes in n fonts, which font describes.
func fonts(b *pdftest.Builder, n int, codes, font string, args ...any) []byte {
	var dict, contents strings.Builder
	for i := range n {
		fmt.Fprintf(&dict, "/F%d %d 0 R ", i, b.Add(font, args...))
		fmt.Fprintf(&contents, "/F%d 1 Tf <%s> Tj ", i, codes)
	}
	return onePage(b, "", "/Contents %d 0 R /Resources <</Font <<%s>>>>", b.Flate("", contents.String()), dict.String())
}

func charsetBeforeProgram() []byte {
	// A top dictionary with ROS, a charset at −2³¹ and the index of glyphs.
	dict := []byte{139, 139, 139, 12, 30, 29, 0x80, 0, 0, 0, 15, 29, 0, 0, 0, 0, 17}
	head := []byte{1, 0, 4, 4, 0, 0, 0, 1, 1, 1, byte(1 + len(dict))}
	binary.BigEndian.PutUint32(dict[len(dict)-5:], uint32(len(head)+len(dict)+4))
	program := string(head) + string(dict) + "\x00\x00\x00\x00" + "\x00\x02\x01\x01\x02\x03\x0e\x0e"
	b := threeObjects()
	n := b.Stream("/Subtype /CIDFontType0C", program)
	font := b.Add("<</Type /Font /Subtype /CIDFontType0 /FontDescriptor <</FontFile3 %d 0 R>>>>", n)
	return fonts(b, 300, "0001", "<</Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [%d 0 R]>>", font)
}

func segmentsWithoutEnd() []byte {
	// 32 subtables for symbols, all of them one of 32 767 segments.
	const subtables = 32
	be := func(values ...uint16) string {
		var out []byte
		for _, v := range values {
			out = binary.BigEndian.AppendUint16(out, v)
		}
		return string(out)
	}
	table := be(0, subtables) + strings.Repeat(be(3, 0, 0, 4+8*subtables), subtables) + be(4, 80, 0, 65534) + strings.Repeat("\x00", 72)
	program := "\x00\x01\x00\x00" + be(1, 0, 0, 0) + "cmap" + be(0, 0, 0, 28, 0, uint16(len(table))) + table
	b := threeObjects()
	n := b.Stream("", program)
	var codes strings.Builder
	for code := range 255 {
		fmt.Fprintf(&codes, "%02x", code)
	}
	return fonts(b, 60, codes.String(), "<</Type /Font /Subtype /TrueType /FontDescriptor <</Flags 4 /FontFile2 %d 0 R>>>>", n)
}

// Each code of PDFDocEncoding in these values becomes three bytes of UTF-8.
func TestF72LargeValuesOfFieldsTakeLittleMemory(t *testing.T) {
	testrun.Once(t, "it runs in one goroutine")
	long := func(n int) string { return strings.Repeat("\x84", n) }
	for _, tt := range []struct {
		name, widget string
		value        func(b *pdftest.Builder)
		most         uint64 // bytes allocated
	}{
		{"a stream", "/FT /Tx /V 6 0 R", func(b *pdftest.Builder) { b.Flate("", long(32<<20)) }, 32 << 20},
		{"a string", "/FT /Tx /V 6 0 R", func(b *pdftest.Builder) { b.Add("(%s)", long(16<<20)) }, 128 << 20},
		{"a list of the same", "/FT /Ch /V [" + strings.Repeat("6 0 R ", 1000) + "]", func(b *pdftest.Builder) { b.Flate("", long(1<<18)) }, 32 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := pdftest.Pages()
			b.Add("null")
			b.Add("null")
			tt.value(b)
			d := open(t, showing(b, "", "/Annots [<</Type /Annot /Subtype /Widget /Rect [0 0 100 100] "+tt.widget+">>]"), pdf.Options{MaxTextBytes: 1 << 20})
			var err error
			took := pdftest.Allocated(func() { _, err = d.Page(1) })
			if !errors.Is(err, pdf.ErrLimit) {
				t.Errorf("got %v, want %v", err, pdf.ErrLimit)
			}
			if took > tt.most {
				t.Errorf("%d MiB were allocated, want at most %d", took>>20, tt.most>>20)
			}
		})
	}
}

func TestF72LargeStringsDoNotStayInMemory(t *testing.T) {
	testrun.Once(t, "it runs in one goroutine")
	testrun.Long(t, "it takes much CPU")
	const pages, size = 20, 5 << 20
	b := &pdftest.Builder{}
	b.Add("<</Type /Catalog /Pages 2 0 R>>")
	b.Add("null")
	var kids strings.Builder
	for range pages {
		one, two := b.Add("(%s)", strings.Repeat("a", size)), b.Add("(%s)", strings.Repeat("b", size))
		fmt.Fprintf(&kids, "%d 0 R ", b.Add("<</Type /Page /Contents [%d 0 R %d 0 R]>>", one, two))
	}
	b.Set(2, "<</Type /Pages /Count %d /Kids [%s]>>", pages, kids.String())
	path := filepath.Join(t.TempDir(), "document")
	if err := os.WriteFile(path, b.Table(""), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d, err := pdf.OpenFile(path, pdf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, err := range d.Pages(1, pages) {
		if err != nil {
			t.Error(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 50<<20 {
		t.Errorf("%d MiB are kept", kept>>20)
	}
}
