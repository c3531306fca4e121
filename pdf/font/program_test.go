package font_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// be writes numbers as 16 bits each, big-endian.
func be(numbers ...int) string {
	var s strings.Builder
	for _, n := range numbers {
		s.WriteByte(byte(n >> 8))
		s.WriteByte(byte(n))
	}
	return s.String()
}

// cffIndex writes an INDEX with offsets of two bytes.
func cffIndex(items ...string) string {
	if len(items) == 0 {
		return be(0)
	}
	offset, s := 1, be(len(items))+"\x02"
	for _, item := range items {
		s += be(offset)
		offset += len(item)
	}
	return s + be(offset) + strings.Join(items, "")
}

// cff describes a font in the Compact Font Format.
type cff struct {
	glyphs            int
	charset, encoding string // as they stand in the file, or "\x00" and so on for the predefined ones
	strings           []string
	byCID             bool
}

func (c cff) String() string {
	top := func(charset, encoding, glyphs int) string {
		number := func(n int) string { return "\x1d" + be(n>>16, n) }
		s := number(charset) + "\x0f" + number(encoding) + "\x10" + number(glyphs) + "\x11"
		if c.byCID {
			s = "\x8b\x8b\x1e\x0a\x5f\x8b\x0c\x1e" + s // with an unneeded real, 0.5
		}
		return s
	}
	before := "\x01\x00\x04\x01" + cffIndex("Test")
	after := cffIndex(c.strings...) + cffIndex()
	at := len(before+cffIndex(top(0, 0, 0))) + len(after)
	data := ""
	place := func(s string) int {
		if len(s) == 1 {
			return int(s[0])
		}
		data += s
		return at + len(data) - len(s)
	}
	charset, encoding := place(c.charset), place(c.encoding)
	glyphs := place(cffIndex(slices.Repeat([]string{"\x0e"}, c.glyphs)...))
	return before + cffIndex(top(charset, encoding, glyphs)) + after + data
}

// sfnt writes a TrueType or OpenType font of these tables.
func sfnt(tables map[string]string) string {
	head, data := "\x00\x01\x00\x00"+be(len(tables), 0, 0, 0), ""
	for _, tag := range slices.Sorted(maps.Keys(tables)) {
		at, length := 12+16*len(tables)+len(data), len(tables[tag])
		head += tag + be(0, 0, at>>16, at, length>>16, length)
		data += tables[tag]
	}
	return head + data
}

// cmap writes a cmap table; its subtables are by platform and encoding.
func cmap(subtables map[[2]int]string) string {
	head, data := be(0, len(subtables)), ""
	for _, key := range slices.SortedFunc(maps.Keys(subtables), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		head += be(key[0], key[1], 0, 4+8*len(subtables)+len(data))
		data += subtables[key]
	}
	return head + data
}

// format4 maps three characters from first on to the glyphs from glyph on.
func format4(first, glyph int) string {
	return be(4, 32, 0, 4, 0, 0, 0, first+2, 0xffff, 0, first, 0xffff, glyph-first, 1, 0, 0)
}

// format6 maps the codes from A on to glyphs.
func format6(glyphs ...int) string {
	return be(6, 10+2*len(glyphs), 0, 'A', len(glyphs)) + be(glyphs...)
}

// post names glyphs: by the number of a standard name, or after those.
func post(indexes []int, names ...string) string {
	s := be(2, 0) + strings.Repeat("\x00", 28) + be(len(indexes)) + be(indexes...)
	for _, name := range names {
		s += string(rune(len(name))) + name
	}
	return s
}

const symbolic = "/FontDescriptor <</Flags 4 /%s 4 0 R>>"

func TestF71EncodingsBuiltIntoCFF(t *testing.T) {
	names := []string{"alpha1.alt", "Germandbls", "wreathproduct", "foo7"}
	tests := []struct {
		name        string
		font        cff
		codes, want string
	}{
		{"names and codes one by one", cff{glyphs: 4, charset: "\x00" + be(391, 34, 393), encoding: "\x00\x03ABC", strings: names}, "ABC", "ɑA≀"},
		{"ranges of bytes", cff{glyphs: 4, charset: "\x01" + be(34) + "\x02", encoding: "\x01\x01a\x02", strings: names}, "abcd", "ABCd"},
		{"an empty encoding", cff{glyphs: 2, charset: "\x00" + be(34), encoding: "\x00\x00"}, "A'", "A’"},
		{"ranges of words", cff{glyphs: 4, charset: "\x02" + be(34, 2), encoding: "\x01\x01a\x02", strings: names}, "abc", "ABC"},
		{"a code more for a glyph", cff{glyphs: 2, charset: "\x00" + be(34), encoding: "\x80\x01a\x01z" + be(392), strings: names}, "az", "ASS"},
		{"the standard encoding", cff{glyphs: 2, charset: "\x00", encoding: "\x00"}, "A'", "A’"},
		{"the expert encoding", cff{glyphs: 166, charset: "\x01", encoding: "\x01"}, "V09Aa\xff", "ff09aaÿ"},
		{"the expert charset", cff{glyphs: 4, charset: "\x01", encoding: "\x00\x03abc"}, "abc", " !˝"},
		{"the subset of the expert charset", cff{glyphs: 4, charset: "\x02", encoding: "\x00\x03abc"}, "abc", " $$"},
		{"a glyph with a name of the writer's", cff{glyphs: 2, charset: "\x00" + be(394), encoding: "\x00\x01G", strings: names}, "G", "G"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, program := range []string{tt.font.String(), strings.Replace(sfnt(map[string]string{"CFF ": tt.font.String()}), "\x00\x01\x00\x00", "OTTO", 1)} {
				f := load(t, "<</Subtype /Type1 "+fmt.Sprintf(symbolic, "FontFile3")+">>", asStream(program))
				if got := text(f, tt.codes); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// The names of the file go before those of the program, which has the rest.
func TestF71DifferencesFromABuiltInEncoding(t *testing.T) {
	program := cff{glyphs: 4, charset: "\x01" + be(34) + "\x02", encoding: "\x00\x03abc"}
	f := load(t, "<</Subtype /Type1 /Encoding <</Differences [98 /beta]>> "+fmt.Sprintf(symbolic, "FontFile3")+">>", asStream(program.String()))
	if got := text(f, "abc"); got != "AβC" {
		t.Errorf("got %q", got)
	}
}

// The glyphs of such a font have numbers instead of names.
func TestCFFOfACompositeFontNamesNothing(t *testing.T) {
	program := cff{glyphs: 3, charset: "\x00" + be(34, 35), encoding: "\x00", byCID: true}
	f := load(t, "<</Subtype /Type1 "+fmt.Sprintf(symbolic, "FontFile3")+">>", asStream(program.String()))
	if got := text(f, "AB"); got != "AB" {
		t.Errorf("got %q, want the standard encoding", got)
	}
}

func TestF71SymbolicTrueType(t *testing.T) {
	unicode := format4('x', 5) // x y z are glyphs 5 6 7
	tests := []struct {
		name        string
		tables      map[string]string
		codes, want string
	}{
		{"symbol codes and characters", map[string]string{"cmap": cmap(map[[2]int]string{{3, 0}: format4(0xf041, 5), {0, 3}: unicode})}, "ABC", "xyz"},
		{"symbol codes without an offset", map[string]string{"cmap": cmap(map[[2]int]string{{3, 0}: format4('A', 5), {3, 1}: unicode})}, "ABC", "xyz"},
		{"Macintosh codes and characters", map[string]string{"cmap": cmap(map[[2]int]string{{1, 0}: format6(7, 6, 5), {3, 10}: unicode})}, "ABC", "zyx"},
		{"a table of all Macintosh codes", map[string]string{"cmap": cmap(map[[2]int]string{{1, 0}: be(0, 262, 0) + strings.Repeat("\x06", 256), {3, 1}: unicode})}, "A", "y"},
		{"ordinary Macintosh codes", map[string]string{"cmap": cmap(map[[2]int]string{{1, 0}: format6(5, 6), {3, 1}: format4('A', 5)})}, "AB\x80", "AB€"},
		{"names of glyphs", map[string]string{"cmap": cmap(map[[2]int]string{{1, 0}: format6(1, 2, 3)}), "post": post([]int{0, 36, 258, 259}, "beta", "union")}, "ABC", "Aβ∪"},
		{"standard names of glyphs", map[string]string{"cmap": cmap(map[[2]int]string{{1, 0}: format6(36, 257)}), "post": be(1, 0)}, "AB", "Ađ"},
		{"characters of private use", map[string]string{"cmap": cmap(map[[2]int]string{{3, 0}: format4(0xf041, 5), {3, 1}: format4(0xf041, 5)})}, "AB\x80", "AB€"},
		{"nothing but outlines", map[string]string{"glyf": ""}, "AB\x80", "AB€"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "<</Subtype /TrueType "+fmt.Sprintf(symbolic, "FontFile2")+">>", asStream(sfnt(tt.tables)))
			if got := text(f, tt.codes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF71TrueTypeEncodings(t *testing.T) {
	program := asStream(sfnt(map[string]string{"cmap": cmap(map[[2]int]string{{1, 0}: format6(5, 6, 7), {3, 1}: format4('x', 5)})}))
	named := asStream(sfnt(map[string]string{
		"cmap": cmap(map[[2]int]string{{3, 1}: format4('x', 5)}), "post": post([]int{0, 0, 0, 0, 0, 258, 259, 260}, "nr6", "nr7", "nr8"),
	}))
	for _, tt := range []struct{ name, dict, codes, want string }{
		{"one that is named goes before the program", "/Encoding /MacRomanEncoding /FontDescriptor <</Flags 4 /FontFile2 4 0 R>>", "A\x80", "AÄ"},
		{"one that is not symbolic has letters", "/FontDescriptor <</Flags 32 /FontFile2 4 0 R>>", "A\x80", "A€"},
		{"one that claims both has letters", "/FontDescriptor <</Flags 36 /FontFile2 4 0 R>>", "A\x80", "A€"},
		{"names that number glyphs", "/Encoding <</Differences [65 /g5 /glyph6 /gid00007 /cid_5 /index6 /g9]>> /FontDescriptor <</FontFile2 4 0 R>>", "ABCDEF", "xyzxy"},
		{"names of the program's own", "/Encoding <</Differences [65 /zeta.x /nr8 /nr7]>> /FontDescriptor <</FontFile2 5 0 R>>", "ABC", "ζzy"},
		{"the program under another entry", "/FontDescriptor <</Flags 4 /FontFile3 4 0 R>>", "ABC", "xyz"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := text(load(t, "<</Subtype /TrueType "+tt.dict+">>", program, named), tt.codes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF71WidthsOfATrueTypeProgram(t *testing.T) {
	program := sfnt(map[string]string{
		"cmap": cmap(map[[2]int]string{{3, 1}: format4('A', 1)}),
		"head": strings.Repeat("\x00", 18) + be(2000), "hhea": strings.Repeat("\x00", 34) + be(3),
		"hmtx": be(2000, 0, 500, 0, 700, 0),
	})
	f := load(t, "<</Subtype /TrueType /FontDescriptor <</FontFile2 4 0 R>>>>", asStream(program))
	for code, want := range map[string]float64{"A": 0.25, "B": 0.35, "C": 0.35, "i": 0.222} { // i is not in the font
		if g, _ := f.Next([]byte(code)); g.Width != want {
			t.Errorf("%s: got %v, want %v", code, g.Width, want)
		}
	}
}

func FuzzSimpleFont(f *testing.F) {
	f.Add("/FontDescriptor <</Flags 4 /FontFile3 4 0 R>>", []byte(cff{glyphs: 4, charset: "\x01" + be(34) + "\x02", encoding: "\x80\x01a\x01z" + be(392)}.String()))
	f.Add("/FontDescriptor <</Flags 4 /FontFile3 4 0 R>>", []byte(cff{glyphs: 166, charset: "\x02", encoding: "\x01"}.String()))
	f.Add("/FontDescriptor <</Flags 4 /FontFile2 4 0 R>>", []byte(sfnt(map[string]string{"cmap": cmap(map[[2]int]string{{1, 0}: format6(1, 2, 3)}), "post": post([]int{0, 36, 258, 259}, "beta", "union")})))
	f.Add("/Encoding <</Differences [0 /G20 /G3F /g5 1.5 (x) null /cid_7]>> /FontDescriptor <</FontFile2 4 0 R>>", []byte(trueType()))
	f.Add("/Subtype /Type3 /FontMatrix [0 1 1 0 0 0] /FirstChar -1 /Widths [1 2 (3) null]", []byte{})
	f.Add("/BaseFont /ABCDEF+Symbol,Bold /FontDescriptor <</FontFile 4 0 R>>", []byte("\x80\x01\x10\x00\x00\x00%!PS /Encoding 256 array dup 65/alpha put"))
	f.Fuzz(func(t *testing.T, dict string, program []byte) {
		fnt := load(t, "<</Subtype /Type1 "+dict+">>", asStream(string(program)))
		for code := range 256 {
			g, n := fnt.Next([]byte{byte(code)})
			if n < 1 || len(g.Text) > 8*256 {
				t.Fatalf("code %d takes %d bytes and has %d bytes of text", code, n, len(g.Text))
			}
		}
	})
}
