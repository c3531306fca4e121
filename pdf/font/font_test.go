package font_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/font"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func TestF71GlyphNames(t *testing.T) {
	tests := []struct{ name, want string }{
		{"A", "A"},
		{"space", " "},
		{"Adieresis", "Ä"},
		{"afii10017", "А"},
		{"dalethatafpatah", "דֲ"},
		{"fi", "fi"},
		{"f_f_i", "ffi"},
		{"T_h", "Th"},
		{"a.sc", "a"},
		{"one.oldstyle", "1"},
		{"uni20AC", "€"},
		{"uni20AC0308", "€̈"},
		{"u1F600", "😀"},
		{"uniXYZ", ""},
		{"uD800", ""},
		{"a65", "A"},
		{"c0066", "B"},
		{"g300", ""},
		{".notdef", ""},
		{"", ""},
		{"nonsense", ""},
		{"Lcommaaccent_uni20AC0308_u1040C.alternate", "Ļ€̈𐐌"}, // the example of Adobe's specification
	}
	for _, tt := range tests {
		if got := font.GlyphText(tt.name); got != tt.want {
			t.Errorf("%q is %q, want %q", tt.name, got, tt.want)
		}
	}
}

// load opens a file whose object 3 is the font dictionary and shows codes.
// Further objects have numbers from 4 on.
func load(t *testing.T, dict string, objects ...string) *font.Font {
	t.Helper()
	b := pdftest.Pages()
	b.Set(3, "%s", dict)
	for _, o := range objects {
		b.Add("%s", o)
	}
	f, err := cos.Open(b.Table(""), cos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return font.Load(f, cos.Ref{Num: 3})
}

func asStream(data string) string {
	return fmt.Sprintf("<</Length %d>>\nstream\n%s\nendstream", len(data), data)
}

func text(f *font.Font, codes string) string {
	var out strings.Builder
	for s := []byte(codes); len(s) > 0; {
		g, n := f.Next(s)
		out.WriteString(g.Text)
		s = s[n:]
	}
	return out.String()
}

func TestF71Encodings(t *testing.T) {
	const identity = "<</Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</W [1 [500]]>>] /ToUnicode 4 0 R>>"
	cjk := func(cmap string) string {
		return "<</Subtype /Type0 /Encoding /" + cmap + " /DescendantFonts [<<>>]>>"
	}
	tests := []struct {
		name, dict, object, codes, want string
	}{
		{"WinAnsi", "<</Subtype /Type1 /Encoding /WinAnsiEncoding>>", "", "a\x80\xe4\xa0\x95", "a€ä •"},
		{"MacRoman", "<</Subtype /Type1 /Encoding /MacRomanEncoding>>", "", "a\x80\xca\xa5", "aÄ\u00a0•"},
		{"standard", "<</Subtype /Type1>>", "", "a'`\xae\xe1\xfb\xa4", "a’‘fiÆß⁄"},
		{"TrueType without an encoding", "<</Subtype /TrueType>>", "", "\x80", "€"},
		{"differences", "<</Subtype /Type1 /Encoding <</BaseEncoding /WinAnsiEncoding /Differences [65 /alpha /beta 200 /T_h -1 /x 255 /y /z]>>>>", "", "ABC\xc8\xff", "αβCThy"},
		{"built into Type 1", "<</Subtype /Type1 /FontDescriptor <</FontFile 4 0 R>>>>", asStream("%!PS\n/Encoding 256 array\n0 1 255 {1 index exch /.notdef put} for\ndup 65/alpha put\ndup 8#102 /beta put\nreadonly def\ndup 67 /gamma put eexec"), "ABC", "αβ"},
		{"Type 1 that says standard", "<</Subtype /Type1 /FontDescriptor <</FontFile 4 0 R>>>>", asStream("/Encoding StandardEncoding def"), "A'", "A’"},
		{"ToUnicode over encoding", "<</Subtype /Type1 /ToUnicode 4 0 R>>", asStream("1 beginbfchar <41> <03B1> endbfchar"), "AB", "αB"},
		{"ToUnicode of two bytes for one", "<</Subtype /Type1 /ToUnicode 4 0 R>>", asStream("<0041> <03B1> endbfchar"), "A", "α"},
		{"ToUnicode that is empty", "<</Subtype /Type1 /ToUnicode 4 0 R>>", asStream(""), "A", "A"},
		{"composite", identity, asStream("<0001> <0041> <0002> <00660066> endbfchar <0010> <0012> <0061> <0020> <0021> [<0078> <D83DDE00>] endbfrange"), "\x00\x01\x00\x02\x00\x11\x00\x21\x00\x99", "Affb😀"},
		{"odd byte at the end", identity, asStream("<0001> <0041> endbfchar"), "\x00\x01\x00", "A"},
		{"embedded CMap", "<</Subtype /Type0 /Encoding 4 0 R /DescendantFonts [<<>>] /ToUnicode 5 0 R>>", asStream("<00> <7f> <8000> <ffff> endcodespacerange <00> <7f> 0 endcidrange"), "A\x81\x40B", "A漢B"},
		{"Shift-JIS", cjk("90ms-RKSJ-H"), "", "a\x93\xfa\x96\x7b", "a日本"},
		{"EUC-JP", cjk("EUC-H"), "", "\xc6\xfc", "日"},
		{"JIS", cjk("V"), "", "\x46\x7c", "日"},
		{"GBK", cjk("GBK-EUC-H"), "", "a\xd6\xd0", "a中"},
		{"Big5", cjk("ETen-B5-H"), "", "\xa4\xa4", "中"},
		{"KSC", cjk("KSCms-UHC-H"), "", "\xb0\xa1", "가"},
		{"UTF-16", cjk("UniJIS-UTF16-H"), "", "\x65\xe5\xd8\x3d\xde\x00", "日😀"},
		{"no font at all", "null", "", "A\x80", "A€"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, tt.dict, tt.object, asStream("<41> <0041> <42> <0042> <8140> <6F22> endbfchar"))
			for range 2 { // the second time from memory
				if got := text(f, tt.codes); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestF71Widths(t *testing.T) {
	tests := []struct {
		name, dict, code string
		want             float64
	}{
		{"listed", "<</Subtype /Type1 /FirstChar 65 /Widths [700 800]>>", "B", 0.8},
		{"missing", "<</Subtype /Type1 /FirstChar 65 /Widths [700] /FontDescriptor <</MissingWidth 123>>>>", "B", 0.123},
		{"negative first character", "<</Subtype /Type1 /FirstChar -1 /Widths [1 2 3]>>", "\x01", 0.003},
		{"monospaced standard font", "<</Subtype /Type1 /BaseFont /Courier-Bold>>", "i", 0.6},
		{"Type 3", "<</Subtype /Type3 /FontMatrix [0.01 0 0 0.01 0 0] /FirstChar 65 /Widths [50]>>", "A", 0.5},
		{"composite, listed one by one", "<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</W [5 [100 200] 9 20 300]>>]>>", "\x00\x06", 0.2},
		{"composite, range", "<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</W [5 [100 200] 9 20 300]>>]>>", "\x00\x14", 0.3},
		{"composite, default of the font", "<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</DW 400 /W [5 [100]]>>]>>", "\x00\x06", 0.4},
		{"composite, between two that are alike", "<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</DW 300 /W [5 [100] 9 [100]]>>]>>", "\x00\x07", 0.3},
		{"composite, default", "<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<<>>]>>", "\x00\x06", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if g, _ := load(t, tt.dict).Next([]byte(tt.code)); g.Width != tt.want {
				t.Errorf("got %v, want %v", g.Width, tt.want)
			}
		})
	}
}

// Word spacing applies to the single byte 32, never to a code of two bytes.
func TestSpaceIsASingleByte(t *testing.T) {
	if g, _ := load(t, "<</Subtype /Type1>>").Next([]byte(" ")); !g.Space {
		t.Error("code 32 of a simple font is not a space")
	}
	if g, _ := load(t, "<</Subtype /Type0 /Encoding /Identity-H>>").Next([]byte("\x00 ")); g.Space {
		t.Error("code 0020 of a composite font is a space")
	}
}

// trueType returns a font program with a cmap of format 4 that maps A and B to
// glyphs 3 and 4, and one of format 12 that maps U+1F600 to glyph 5.
func trueType() string {
	u16 := func(v ...int) (s string) {
		for _, v := range v {
			s += string([]byte{byte(v >> 8), byte(v)})
		}
		return s
	}
	format4 := u16(4, 32, 0, 4, 0, 0, 0) + u16('B', 0xffff) + u16(0) + u16('A', 0xffff) + u16(0x10000+3-'A', 1) + u16(0, 0)
	format12 := u16(12, 0, 0, 28, 0, 0, 0, 1, 1, 0xf600, 1, 0xf600, 0, 5)
	table := u16(0, 2) + u16(3, 1, 0, 20) + u16(3, 10, 0, 20+len(format4)) + format4 + format12
	return u16(1, 0, 1, 0, 0, 0) + "cmap" + u16(0, 0, 0, 28, 0, len(table)) + table
}

func FuzzFontProgram(f *testing.F) {
	f.Add([]byte(trueType()))
	f.Add([]byte("/Encoding 256 array dup 65/alpha put"))
	f.Fuzz(func(t *testing.T, program []byte) {
		for _, dict := range []string{
			"<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</FontDescriptor <</FontFile2 4 0 R>>>>]>>",
			"<</Subtype /Type1 /FontDescriptor <</FontFile 4 0 R>>>>",
		} {
			text(load(t, dict, asStream(string(program))), "AB\x00\x01")
		}
	})
}
