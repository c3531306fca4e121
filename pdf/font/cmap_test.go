package font_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/font"
)

func TestCMapCodesAreBoxes(t *testing.T) {
	c := font.ParseCMap([]byte("<8140> <8dfc> <8f20> <8f9f> <00> <80> <8ea1a1a1> <8ea1fefe> <8fa1a1> <8ffefe> endcodespacerange"))
	for s, want := range map[string]int{
		"\x81\x40": 2, "\x41\x81": 1, "\x8d\xfc": 2, "\x8d": 1,
		"\x8e\xa1\xa1\xa1": 4, "\x8f\x21\xa1": 2, "\x8f\xa1\xa1": 3,
		"\x81\x3f":     2, // in no range, but begins as the first
		"\x8f\xa1\x20": 3, // begins as one of three bytes, further than as one of two
		"\x8f\x10\x20": 2, // begins as both
		"\xff\xff":     1, // begins as none
	} {
		if got := c.Next([]byte(s)); got != want {
			t.Errorf("code of %x is %d bytes, want %d", s, got, want)
		}
	}
	three := font.ParseCMap([]byte("<00> <7f> <e08080> <efbfbf> <e0808080> <e0ffffff> endcodespacerange"))
	if got := three.Next([]byte("\xe0\xff\x80\x20")); got != 4 {
		t.Errorf("the code that follows a range of four bytes furthest has %d", got)
	}
}

func TestCMapWithNoCodespaceHasCodesOfTwoBytes(t *testing.T) {
	if got := font.ParseCMap(nil).Next([]byte("abc")); got != 2 {
		t.Errorf("got %d", got)
	}
}

func TestF71CMapText(t *testing.T) {
	tests := []struct {
		name, cmap string
		code       uint32
		want       string
		says       bool
	}{
		{"character", "<01> <0041> endbfchar", 1, "A", true},
		{"several characters", "<01> <006600660069> endbfchar", 1, "ffi", true},
		{"surrogates", "<01> <d83dde00> endbfchar", 1, "😀", true},
		{"half a surrogate pair", "<01> <d83d> endbfchar", 1, "", false},
		{"a single byte", "<01> <e9> endbfchar", 1, "é", true},
		{"three bytes", "<01> <004100> endbfchar", 1, "A", true},
		{"byte order mark", "<01> <feff0041> endbfchar", 1, "A", true},
		{"glyph name", "<01> /eacute endbfchar", 1, "é", true},
		{"no text on purpose", "<01> <> endbfchar", 1, "", true},
		{"unknown as zero", "<01> <0000> endbfchar", 1, "", false},
		{"unknown as replacement character", "<01> <fffd> <02> <0041> endbfchar", 1, "", false},
		{"range", "<01> <05> <0041> endbfrange", 4, "D", true},
		{"range that carries", "<00> <05> <00ff> endbfrange", 1, "Ā", true},
		{"range of several characters", "<01> <05> <00660061> endbfrange", 3, "fc", true},
		{"range of surrogates", "<00> <ff> <d83ddfff> endbfrange", 1, "\U0001f800", true},
		{"range with an array", "<01> <03> [<0041> <0042> /x] endbfrange", 3, "x", true},
		{"array shorter than its range", "<01> <03> [<0041>] endbfrange", 2, "", false},
		{"array longer than its range", "<01> <02> [<0041> <0042> <0043>] <05> <05> <0045> endbfrange", 3, "", false},
		{"after an array", "<01> <02> [<0041> <0042> <0043>] <05> <05> <0045> endbfrange", 5, "E", true},
		{"character within a range", "<00> <ff> <0041> endbfrange <10> <0061> <11> <0062> <12> <0063> endbfchar", 0x11, "b", true},
		{"range around many characters", "<00> <ff> <0100> endbfrange <01> <0061> <02> <0061> <03> <0061> <04> <0061> <05> <0061> <06> <0061> <07> <0061> <08> <0061> <09> <0061> <0a> <0061> <0b> <0061> endbfchar", 0x0c, "Č", true},
		{"not sorted", "<05> <0045> <03> <0043> <01> <0041> endbfchar", 1, "A", true},
		{"end is missing", "2 beginbfchar <01> <0041>", 1, "A", true},
		{"end of the section before is missing", "1 beginbfchar <01> <0041> 1 beginbfrange <02> <02> <0042> endbfrange", 1, "A", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := font.ParseCMap([]byte(tt.cmap)).Text(tt.code, 1); got != tt.want || ok != tt.says {
				t.Errorf("got %q, %v, want %q, %v", got, ok, tt.want, tt.says)
			}
		})
	}
}

// Operators stand where they stand, with or without white space around them.
func TestF78CMapOperatorsMayBeGlued(t *testing.T) {
	for _, tt := range []struct {
		name, cmap string
		code       uint32
		text       string
		cid        uint32
	}{
		{"to the next", "1 beginbfchar <01> <0041> endbfcharendcmap", 1, "A", 0},
		{"to the next section", "1 beginbfchar <01> <0041> endbfchar1 beginbfrange <02> <03> <0042> endbfrange", 3, "C", 0},
		{"to the beginning of the next section", "1 beginbfchar <01> <0041> endbfcharbeginbfrange <02> <03> <0042> endbfrangeendcmap", 3, "C", 0},
		{"to strings", "1beginbfchar<01><0041>endbfchar 1beginbfchar<02><0042>endbfchar", 2, "B", 0},
		{"to a name", "<01> /eacuteendbfchar <02> /x endbfchar", 1, "é", 0},
		{"to a number", "<01> 65endcidchar <02> <03> 70endcidrange", 3, "", 71},
		{"to a number and the next", "<01> 65endcidcharendcmap", 1, "", 65},
		{"to a definition", "/CMapType 2def1 begincidchar <01> 65 endcidchar", 1, "", 65},
		{"to the CMap it uses", "/90ms-RKSJ-Husecmap", 1, "", 0},
		{"all of them", "12 dictbeginbegincmap/WMode 1def1begincodespacerange<00><ff>endcodespacerange1beginbfchar<01><0041>endbfchar1begincidrange<01><03>7endcidrangeendcmapenddefineresourcepopend", 1, "A", 7},
		{"names that look like operators", "<01> /.notdef <02> /B endbfchar", 2, "B", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := font.ParseCMap([]byte(tt.cmap))
			if got, _ := c.Text(tt.code, 1); got != tt.text {
				t.Errorf("text is %q, want %q", got, tt.text)
			}
			if got := c.CID(tt.code, 1); got != tt.cid {
				t.Errorf("CID is %d, want %d", got, tt.cid)
			}
			if used := strings.Contains(tt.name, "uses"); used != (c.Use == "90ms-RKSJ-H") {
				t.Errorf("uses %q", c.Use)
			}
		})
	}
}

func TestF71CMapCIDs(t *testing.T) {
	c := font.ParseCMap([]byte("<00> <1f> 7 endnotdefrange <01> <03> 100 <0001> <0003> 200 endcidrange <20> 300 endcidchar <21> 70000 <22> -1 endcidchar"))
	for _, tt := range []struct {
		code uint32
		size int
		want uint32
	}{
		{2, 1, 101},
		{2, 2, 201},
		{4, 1, 7}, // all codes of a notdef range show the same
		{5, 1, 7},
		{0x20, 1, 300},
		{0x21, 1, 0}, // beyond 65 535
		{0x22, 1, 0},
		{4, 2, 0},
	} {
		if got := c.CID(tt.code, tt.size); got != tt.want {
			t.Errorf("code %x of %d bytes is CID %d, want %d", tt.code, tt.size, got, tt.want)
		}
	}
}

func FuzzCMap(f *testing.F) {
	f.Add([]byte("/WMode 1 def <00> <ff> endcodespacerange <01> <0041> endbfchar <02> <09> <0041> <0a> <0b> [<0041> /B] endbfrange <00> <ff> 1 endcidrange /X usecmap"), []byte("\x00\x01\x02"))
	f.Add([]byte("1beginbfchar<01>/Aendbfchar2begincidrange<00><1f>1endcidrangeendcmap/WMode 1defdefendbegin"), []byte("\x01\x02"))
	f.Add([]byte("<ffffffff> <ffffffff> <00> endbfrange"), []byte("\xff\xff\xff\xff"))
	f.Add([]byte("<00000000> <ffffffff> endcodespacerange <00000000> <ffffffff> <00410042> endbfrange 1 begincidrange <00> <1f> 1"), []byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, src, codes []byte) {
		c := font.ParseCMap(src)
		for len(codes) > 0 {
			n := c.Next(codes)
			if n < 1 || n > len(codes) || n > 4 {
				t.Fatalf("code of %d bytes in %d", n, len(codes))
			}
			var code uint32
			for _, b := range codes[:n] {
				code = code<<8 | uint32(b)
			}
			c.CID(code, n)
			if text, _ := c.Text(code, n); len(text) > 1024 {
				t.Errorf("a code has %d bytes of text", len(text))
			}
			codes = codes[n:]
		}
	})
}

// FuzzComposite shows codes in a font whose CMaps are arbitrary.
func FuzzComposite(f *testing.F) {
	f.Add("/90ms-RKSJ-H usecmap <00> <ff> endcodespacerange <20> <7e> 231 endcidrange", "<20> <0020> endbfchar", "Japan1", "a\x93\xfa")
	f.Add("/WMode 1 def /UniJIS-UTF16-V usecmap", "/Adobe-Japan1-UCS2 usecmap", "GB1", "\x65\xe5\xd8\x3d\xde\x00")
	f.Add("/UniJIS-UTF8-H usecmap", "<00> <ff> 0 endcidrange", "KR", "\xe6\x97\xa5\xff\xf0\x9f")
	f.Add("<00000000> <ffffffff> endcodespacerange", "", "UCS", "\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, encoding, unicode, ordering, codes string) {
		dict := fmt.Sprintf("<</Subtype /Type0 /Encoding 4 0 R /ToUnicode 5 0 R /DescendantFonts [<</CIDSystemInfo <</Ordering <%x>>> /W [0 [1 2] 3 70000 4] /W2 [0 [1 2 3 4] 5 6 7 8 9]>>]>>", ordering)
		text(load(t, dict, asStream(encoding), asStream(unicode)), codes)
		text(load(t, strings.Replace(dict, "/Encoding 4 0 R", "/Encoding /Identity-V", 1), asStream(""), asStream(unicode)), codes)
	})
}
