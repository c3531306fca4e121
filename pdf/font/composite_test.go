package font_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/font"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

func TestF71PredefinedCMaps(t *testing.T) {
	tests := []struct{ cmap, codes, want string }{
		{"90ms-RKSJ-H", "a\x93\xfa\x96\x7b\xb1", "a日本ｱ"},
		{"90msp-RKSJ-V", "\x81\x75\x93\xfa\x81\x76\x81\x41", "「日」、"},
		{"90pv-RKSJ-H", "\x93\xfa", "日"},
		{"83pv-RKSJ-H", "\x93\xfa", "日"},
		{"Ext-RKSJ-H", "\x93\xfa", "日"},
		{"EUC-H", "a\xc6\xfc\x8e\xb1", "a日ｱ"},
		{"H", "\x46\x7c", "日"},
		{"V", "\x46\x7c\x21\x22", "日、"},
		{"UniJIS-UCS2-H", "\x65\xe5\x00a", "日a"},
		{"UniJIS-UCS2-HW-V", "\x65\xe5\x30\x0c", "日「"},
		{"UniJIS-UTF16-H", "\x65\xe5\xd8\x40\xdc\x0b", "日𠀋"},
		{"UniJIS2004-UTF16-H", "\x8f\xbb", "辻"},
		{"UniJIS-UTF8-H", "a日𠀋", "a日𠀋"},
		{"UniJIS-UTF32-V", "\x00\x00\x65\xe5\x00\x02\x00\x0b", "日𠀋"},
		{"UniHojo-UTF16-H", "\x4e\x02", "丂"},
		{"GB-EUC-H", "a\xd6\xd0", "a中"},
		{"GBK-EUC-H", "a\xd6\xd0\x81\x40", "a中丂"},
		{"GBKp-EUC-V", "\xd6\xd0", "中"},
		{"GBK2K-H", "a\xd6\xd0\x81\x39\xee\x39", "a中㐀"},
		{"GBpc-EUC-H", "\xd6\xd0", "中"},
		{"UniGB-UCS2-H", "\x4e\x2d", "中"},
		{"UniGB-UTF16-H", "\x4e\x2d\xd8\x40\xdc\x87", "中𠂇"},
		{"B5pc-H", "\xa4\xa4", "中"},
		{"ETen-B5-H", "a\xa4\xa4", "a中"},
		{"ETenms-B5-V", "\xa4\xa4", "中"},
		{"HKscs-B5-H", "\xa4\xa4\x87\x40", "中䏰"},
		{"CNS-EUC-H", "\xc4\xe3\x8e\xa2\xa1\xa1", "中乂"},
		{"UniCNS-UCS2-H", "\x4e\x2d", "中"},
		{"UniCNS-UTF16-V", "\x4e\x2d\x30\x0c", "中「"},
		{"KSC-EUC-H", "\xb0\xa1", "가"},
		{"KSCms-UHC-H", "a\xb0\xa1\x81\x41", "a가갂"},
		{"KSCms-UHC-HW-V", "\xb0\xa1", "가"},
		{"KSCpc-EUC-H", "\xb0\xa1", "가"},
		{"UniKS-UCS2-H", "\xac\x00", "가"},
		{"UniKS-UTF16-V", "\xac\x00", "가"},
		{"UniAKR-UTF16-H", "\xac\x00", "가"},
		{"Adobe-Japan1-2", "\x0c\xd4", "日"},
		{"UniJIS-UTF16-H", "\xd8\x3d\xde\x00", "😀"}, // not in the collection, but its code is Unicode
		{"Identity-UTF16-H", "\x65\xe5", "日"},
	}
	for _, tt := range tests {
		f := load(t, "<</Subtype /Type0 /Encoding /"+tt.cmap+" /DescendantFonts [<</CIDSystemInfo <</Ordering (Identity)>>>>]>>")
		if got := text(f, tt.codes); got != tt.want {
			t.Errorf("%s: %x is %q, want %q", tt.cmap, tt.codes, got, tt.want)
		}
		if want := strings.HasSuffix(tt.cmap, "V"); f.Vertical != want {
			t.Errorf("%s: vertical is %v", tt.cmap, f.Vertical)
		}
	}
}

func TestF71CollectionsOfFontsThatAreNotEmbedded(t *testing.T) {
	tests := []struct{ ordering, codes, want string }{
		{"Japan1", "\x0c\xd4\x1e\xd3", "日ー"}, // and a vertical form
		{"Japan1", "\x1e\x36", "巽"},          // not its compatibility form
		{"GB1", "\x11\xcf", "中"},
		{"CNS1", "\x02\x95", "中"},
		{"Korea1", "\x04\x3e", "가"},
		{"KR", "\x00\xdd\x0b\xba", "가fi"},
		{"UCS", "\x65\xe5\x00\x00", "日"},
		{"Identity", "\x0c\xd4", ""},
		{"Nonsense", "\x0c\xd4", ""},
	}
	for _, tt := range tests {
		f := load(t, fmt.Sprintf("<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</CIDSystemInfo <</Registry (Adobe) /Ordering (%s) /Supplement 2>>>>]>>", tt.ordering))
		if got := text(f, tt.codes); got != tt.want {
			t.Errorf("%s: %x is %q, want %q", tt.ordering, tt.codes, got, tt.want)
		}
	}
}

// The collection of the encoding counts: it is what makes the CIDs.
func TestCollectionOfTheEncodingCounts(t *testing.T) {
	f := load(t, "<</Subtype /Type0 /Encoding /GBK-EUC-H /DescendantFonts [<</CIDSystemInfo <</Ordering (Japan1)>>>>]>>")
	if got := text(f, "\xd6\xd0"); got != "中" {
		t.Errorf("got %q", got)
	}
}

func TestF71EmbeddedCMaps(t *testing.T) {
	tests := []struct{ name, dict, cmap, codes, want string }{
		{"completes a predefined one", "", "/90ms-RKSJ-H usecmap <41> 843 endcidchar", "Aa\x93\xfa", "あa日"},
		{"completes one named in its dictionary", "/UseCMap /90ms-RKSJ-H", "<41> 843 endcidchar", "A\x93\xfa", "あ日"},
		{"completes one in the file", "/UseCMap 5 0 R", "<41> 843 endcidchar", "AB\x93\xfa", "あい日"},
		{"uses itself", "/UseCMap 4 0 R /CIDSystemInfo <</Ordering (Japan1)>>", "<00> <ff> endcodespacerange <41> 843 endcidchar", "AB", "あ"},
		{"only uses", "/CMapName /Mine", "/90ms-RKSJ-H usecmap", "\x93\xfa", "日"},
		{"says nothing but its name", "/CMapName /90ms-RKSJ-H", "", "\x93\xfa", "日"},
		{"says nothing", "/CIDSystemInfo <</Ordering (Japan1)>>", "", "\x0c\xd4", "日"},
		{"names its collection", "/CIDSystemInfo <</Ordering (Japan1)>>", "<00> <7f> <8000> <ffff> endcodespacerange <00> <7f> 843 <8000> <80ff> 844 endcidrange", "\x00\x80\x00", "あぃ"},
		{"codes of one to four bytes", "/CIDSystemInfo <</Ordering (Japan1)>>", "<00> <7f> <8000> <80ff> <810000> <81ffff> <82000000> <82ffffff> endcodespacerange <00> 843 <8001> 845 <810002> 847 <82000003> 849 endcidchar", "\x00\x80\x01\x81\x00\x02\x82\x00\x00\x03\x00", "あいうえあ"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stream := fmt.Sprintf("<<%s /Length %d>>\nstream\n%s\nendstream", tt.dict, len(tt.cmap), tt.cmap)
			f := load(t, "<</Subtype /Type0 /Encoding 4 0 R /DescendantFonts [<<>>]>>", stream, asStream("/90ms-RKSJ-H usecmap <41> 850 <42> 845 endcidchar"))
			for range 2 { // the second time from memory
				if got := text(f, tt.codes); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestF71ToUnicodeOfCompositeFonts(t *testing.T) {
	tests := []struct{ name, unicode, cmap, codes, want string }{
		{"where it says nothing the collection does", "4 0 R", "<0cd4> <0078> endbfchar", "\x0c\xd4\x0c\xd6", "x入"},
		{"only zeros", "4 0 R", "<0cd4> <0cd6> [<0000> <0000> <fffd>] endbfrange", "\x0c\xd4\x0c\xd6", "日入"},
		{"codes of one byte for two", "4 0 R", "<2e> <0078> endbfchar", "\x00\x2e", "x"},
		{"codes of three bytes for two", "4 0 R", "<000cd4> <0078> endbfchar", "\x0c\xd4", "x"},
		{"identity by name: codes are Unicode", "/Identity-H", "", "\x65\xe5", "日"},
		{"identity by use", "4 0 R", "/Identity-H usecmap <0041> <0042> endbfchar", "\x65\xe5\x00A", "日B"},
		{"characters as if they were CIDs", "4 0 R", "<0000> <ffff> 0 endcidrange", "\x65\xe5", "日"},
		{"Adobe's CMap of another collection by name", "/Adobe-GB1-UCS2", "", "\x11\xcf", "中"},
		{"Adobe's CMap by use", "4 0 R", "/Adobe-GB1-UCS2 usecmap <0041> <0042> endbfchar", "\x11\xcf\x00A", "中B"},
		{"use of a CMap that leads to real CIDs", "4 0 R", "/UniGB-UCS2-H usecmap", "\x0c\xd4\x30\x42", "日ろ"},
		{"name that says nothing", "/Nonsense", "", "\x0c\xd4", "日"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dict := "<</Subtype /Type0 /Encoding /Identity-H /ToUnicode " + tt.unicode + " /DescendantFonts [<</CIDSystemInfo <</Ordering (Japan1)>>>>]>>"
			if got := text(load(t, dict, asStream(tt.cmap)), tt.codes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF71FontProgramOfCompositeFonts(t *testing.T) {
	const dict = "<</Subtype /Type0 /Encoding /Identity-H %s /DescendantFonts [<</FontDescriptor <<%s>> %s>>]>>"
	tests := []struct{ name, font, program, descendant, codes, want string }{
		{"TrueType", "", "/FontFile2 4 0 R", "/CIDToGIDMap /Identity", "\x00\x03\x00\x04\x00\x05\x00\x06", "AB😀"},
		{"with a map to glyphs", "", "/FontFile2 4 0 R", "/CIDToGIDMap 6 0 R", "\x00\x01\x00\x03", "B"},
		{"OpenType", "", "/FontFile3 5 0 R", "", "\x00\x03", "A"},
		{"where ToUnicode says nothing", "/ToUnicode 7 0 R", "/FontFile2 4 0 R", "", "\x00\x03\x00\x04", "xB"},
		{"where ToUnicode says zero", "/ToUnicode 8 0 R", "/FontFile2 4 0 R", "", "\x00\x03", "A"},
	}
	openType := fmt.Sprintf("<</Subtype /OpenType /Length %d>>\nstream\n%s\nendstream", len(trueType()), trueType())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, fmt.Sprintf(dict, tt.font, tt.program, tt.descendant), asStream(trueType()), openType,
				asStream("\x00\x00\x00\x04"), asStream("<0003> <0078> endbfchar"), asStream("<0003> <0000> endbfchar"))
			if got := text(f, tt.codes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestVerticalFonts(t *testing.T) {
	for dict, want := range map[string]bool{
		"<</Subtype /Type0 /Encoding /Identity-V>>":  true,
		"<</Subtype /Type0 /Encoding /Identity-H>>":  false,
		"<</Subtype /Type0 /Encoding /V>>":           true,
		"<</Subtype /Type0 /Encoding /Nonsense-V>>":  true,
		"<</Subtype /Type0 /Encoding 4 0 R>>":        true,
		"<</Subtype /Type0 /Encoding 5 0 R>>":        true,
		"<</Subtype /Type0 /Encoding 6 0 R>>":        false,
		"<</Subtype /Type0 /Encoding 7 0 R>>":        true,
		"<</Subtype /Type1>>":                        false,
		"<</Subtype /Type0 /Encoding /Nonsense>>":    false,
		"<</Subtype /Type0 /Encoding /90ms-RKSJ-H>>": false,
	} {
		f := load(t, dict, asStream("/WMode 1 def <0000> <ffff> 0 endcidrange"), asStream("/V usecmap"), asStream("/WMode 0 def /H usecmap"),
			"<</WMode 1 /Length 0>>\nstream\n\nendstream")
		if f.Vertical != want {
			t.Errorf("%s: vertical is %v", dict, f.Vertical)
		}
	}
}

func TestF71VerticalAdvance(t *testing.T) {
	tests := []struct {
		name, descendant, code string
		want                   float64
	}{
		{"default", "/W [0 [250 250]]", "\x00\x01", 1},
		{"default of the font", "/DW2 [900 -1100]", "\x00\x01", 1.1},
		{"listed one by one", "/W2 [1 [-500 250 880 -600 250 880]]", "\x00\x02", 0.6},
		{"not listed", "/W2 [1 [-500 250 880 -600 250 880]]", "\x00\x03", 1},
		{"group cut short", "/W2 [1 [-500 250 880 -600 250]]", "\x00\x02", 1},
		{"range", "/W2 [9 [-500 250 880] 1 5 -700 250 880]", "\x00\x05", 0.7},
		{"after a range", "/W2 [1 5 -700 250 880 9 [-500 250 880]]", "\x00\x09", 0.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "<</Subtype /Type0 /Encoding /Identity-V /DescendantFonts [<<"+tt.descendant+">>]>>")
			if g, _ := f.Next([]byte(tt.code)); g.Width != tt.want {
				t.Errorf("got %v, want %v", g.Width, tt.want)
			}
		})
	}
}

func TestF71CFFProgramOfCompositeFonts(t *testing.T) {
	const dict = "<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</FontDescriptor <</FontFile3 4 0 R>>>>]>>"
	byCID := cff{glyphs: 8, charset: "\x00" + be(1, 2, 3, 4, 50, 60, 70), encoding: "\x00", byCID: true}
	openType := sfnt(map[string]string{"CFF ": byCID.String(), "cmap": cmap(map[[2]int]string{{3, 1}: format4('x', 5)})})
	if got := text(load(t, dict, asStream(openType)), "\x00\x32\x00\x46\x00\x05\x00\x63"); got != "xz" {
		t.Errorf("with CIDs of its own: got %q, want xz", got)
	}
	byName := cff{glyphs: 3, charset: "\x00" + be(34, 35), encoding: "\x00"}
	if got := text(load(t, dict, asStream(byName.String())), "\x00\x01\x00\x02"); got != "AB" {
		t.Errorf("with names of glyphs: got %q, want AB", got)
	}
}

// What a page could not afford to read, the next page can.
func TestFontProgramIsReadAgainWithANewBudget(t *testing.T) {
	b := pdftest.Pages()
	b.Set(3, "<</Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<</FontDescriptor <</FontFile2 4 0 R>>>>]>>")
	b.Flate("", trueType())
	file, err := cos.Open(b.Table(""), cos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := font.Load(file, cos.Ref{Num: 3})
	file.SetBudget(1)
	if got := text(f, "\x00\x03"); got != "" || file.BudgetErr() == nil {
		t.Errorf("without a budget: got %q, %v", got, file.BudgetErr())
	}
	file.SetBudget(1 << 20)
	if got := text(f, "\x00\x03"); got != "A" {
		t.Errorf("with a new budget: got %q", got)
	}
}

// Codes of all lengths are remembered apart.
func TestCompositeFontRemembersByLength(t *testing.T) {
	f := load(t, "<</Subtype /Type0 /Encoding 4 0 R /ToUnicode 5 0 R /DescendantFonts [<<>>]>>",
		asStream("<00> <7f> <8000> <80ff> <81000000> <81ffffff> endcodespacerange <00> <7f> 0 endcidrange"),
		asStream("<41> <0061> <8041> <0062> <81000041> <0063> endbfchar"))
	for range 2 {
		if got := text(f, "A\x80A\x81\x00\x00A"); got != "abc" {
			t.Errorf("got %q", got)
		}
	}
}

// BenchmarkToUnicode reads the CMap of a large subset: 6 000 characters, one by
// one, as writers list them.
func BenchmarkToUnicode(b *testing.B) {
	var src strings.Builder
	for i := range 60 {
		src.WriteString("100 beginbfchar\n")
		for k := range 100 {
			fmt.Fprintf(&src, "<%04x> <%04x>\n", 100*i+k, 0x4e00+3*(100*i+k))
		}
		src.WriteString("endbfchar\n")
	}
	data := []byte(src.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		font.ParseCMap(data)
	}
}
