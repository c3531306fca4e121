package font_test

import (
	"math"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/font"
)

func TestF71GlyphNamesOfTeXAndExpertFonts(t *testing.T) {
	for name, want := range map[string]string{
		"angbracketleft": "⟨", "negationslash": "\u0338", "visiblespace": "␣", "arrownortheast": "↗", "mapsto": "↦",
		"integraldisplay": "∫", "summationtext": "∑", "parenleftBigg": "(", "radicalbig": "√", "hatwidest": "\u0302",
		"epsilon1": "ϵ", "dotlessj": "ȷ", "planckover2pi1": "ℏ", "squaresolid": "■", "subsetnoteql": "⊊",
		"Asmall": "a", "AEsmall": "æ", "oneoldstyle": "1", "dollarsuperior": "$", "parenlefttp": "⎛", "registerserif": "®",
		"ffl": "ffl", "f_f_i.alt": "ffi", "SS": "SS",
		"zzz": "", "\n": "", "A A": "", "a\nb": "", "uni": "", "uni20AG": "", "cid65": "", "g65": "",
	} {
		if got := font.GlyphText(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestF71SymbolFontsReadAsGreek(t *testing.T) {
	for _, tt := range []struct{ name, dict, codes, want string }{
		{"Symbol", "/BaseFont /Symbol", "abD\xb3\xf4", "αβ∆≥⎮"},
		{"a subset of it", "/BaseFont /ABCDEF+Symbol", "a", "α"},
		{"its bold face", "/Subtype /TrueType /BaseFont /Symbol,Bold", "a", "α"},
		{"under its other name", "/Subtype /TrueType /BaseFont /SymbolMT", "a", "α"},
		{"with names of its own", "/BaseFont /Symbol /Encoding <</Differences [65 /beta]>>", "Ab", "ββ"},
		{"with an encoding that is named", "/BaseFont /Symbol /Encoding /WinAnsiEncoding", "a", "a"},
		{"with an unknown encoding", "/BaseFont /Symbol /Encoding /SymbolEncoding", "a", "α"},
		{"another font", "/BaseFont /SymbolicTimes", "a", "a"},
		{"ZapfDingbats", "/BaseFont /ZapfDingbats", "!4l\xac", "✁✔●①"},
		{"ZapfDingbats whatever its encoding", "/BaseFont /ZapfDingbats /Encoding /WinAnsiEncoding", "4", "✔"},
		{"ZapfDingbats with names", "/BaseFont /ABCDEF+Zapf#20Dingbats /Encoding <</Differences [1 /a20 /a12]>>", "\x01\x02", "✔☞"},
		{"expert figures", "/BaseFont /Expert /Encoding /MacExpertEncoding", "1Va", "1ffa"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := text(load(t, "<</Subtype /Type1 "+tt.dict+">>"), tt.codes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Names that number their codes are read as poppler reads them.
func TestF71NumberedGlyphNames(t *testing.T) {
	for _, tt := range []struct{ name, differences, codes, want string }{
		{"decimal", "[0 /c65 /c66 /c67]", "\x00\x01\x02", "ABC"},
		{"decimal without letters", "[1 /65 /66]", "\x01\x02", "AB"},
		{"hexadecimal, shown by one digit", "[1 /G41 /G4A]", "\x01\x02", "AJ"},
		{"hexadecimal without letters", "[1 /41 /6C]", "\x01\x02", "Al"},
		{"a letter at the end of others", "[1 /a0 /a65]", "\x02", "A"},
		{"one name that is no number", "[1 /G41 /foo 66 /G41]", "B", ""},
		{"numbers that do not begin with the codes", "[66 /c0065 /nine65]", "BC", "AC"},
		{"names of nothing stand for their codes", "[65 /foo /fu 200 /baz]", "AB\xc8", "ABÈ"},
		{"names of nothing under control codes", "[1 /foo 128 /fu]", "\x01\x80", ""},
		{"no glyph", "[65 /.notdef /.null]", "AB", ""},
		{"real numbers and strings", "[65.0 /B (x) /C null /D]", "ABC", "BCD"},
		{"codes beyond the table", "[255 /a /b 1e9 /c -5 /d 99999999999 /e]", "\xff", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "<</Subtype /Type1 /Encoding <</Differences "+tt.differences+">>>>")
			if got := text(f, tt.codes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The number of a glyph says nothing of its text, and neither does its code.
func TestF78GlyphsNamedAfterTheirNumberPrintNothing(t *testing.T) {
	differences := func(list string) string { return "/Encoding <</Differences [" + list + "]>>" }
	for _, tt := range []struct{ name, dict, codes, want string }{
		{"g", differences("65 /g123 /g124 /g125"), "ABC", ""},
		{"cid", differences("65 /cid123 /cid_124 /cid00125"), "ABC", ""},
		{"glyph", differences("65 /glyph12 /Glyph13 /glyph14"), "ABC", ""},
		{"gid and index", differences("65 /gid12 /index13"), "AB", ""},
		{"G", differences("65 /G01 /G02 /G0A /G41"), "ABCD", ""},
		{"from the first code on", differences("1 /g65 /g66 /g67"), "\x01\x02\x03", ""},
		{"G from the first code on", differences("1 /G41 /G42 /G43"), "\x01\x02\x03", ""},
		{"among letters", differences("65 /A /g123 /B"), "ABC", "AB"},
		{"letters all the same", differences("65 /g /G /germandbls /gamma"), "ABCD", "gGßγ"},
		{"with a CMap to Unicode", differences("65 /g123 /G01") + " /ToUnicode 4 0 R", "AB", "xy"},
		{"a CMap that knows one", differences("67 /g123 65 /g123") + " /ToUnicode 4 0 R", "AC", "x"},
		{"numbers of codes, not glyphs, by a letter", differences("1 /G41 /G4A"), "\x01\x02", "AJ"},
		{"another name that says nothing", differences("65 /foo"), "A", "A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "<</Subtype /Type1 "+tt.dict+">>", asStream("<41> <42> <0078> endbfrange"))
			if got := text(f, tt.codes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF71DamagedFontDictionaries(t *testing.T) {
	for _, tt := range []struct{ name, dict, codes, want string }{
		{"the name of the standard encoding", "<</Subtype /TrueType /Encoding /StandardEncoding>>", "'\x80", "'€"},
		{"an unknown encoding", "<</Subtype /Type1 /Encoding /PDFDocEncoding>>", "A'", "A’"},
		{"a TrueType font with one", "<</Subtype /TrueType /Encoding /Identity-H>>", "A'\x80", "A'€"},
		{"no subtype", "<</Encoding /WinAnsiEncoding>>", "A\x80", "A€"},
		{"a composite font that is not declared as one", "<</Encoding /UniJIS-UTF16-H /DescendantFonts [<<>>]>>", "\x65\xe5", "日"},
		{"entries of the wrong types", "<</Subtype 1 /Encoding [1] /Widths /x /FontDescriptor (x) /BaseFont 7 /ToUnicode 1>>", "A", "A"},
		{"a program that is none", "<</Subtype /Type1 /FontDescriptor <</FontFile 4 0 R /FontFile3 5 0 R>>>>", "A", "A"},
		{"a program behind the header of a PFB file", "<</Subtype /Type1 /FontDescriptor <</FontFile 5 0 R>>>>", "A", "α"},
		{"a currency of MacRoman", "<</Subtype /Type1 /Encoding /MacRomanEncoding>>", "\xdb\xf0", "¤"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, tt.dict, asStream("junk"), asStream("\x80\x01\x40\x00\x00\x00%!FontType1\n/Encoding 256 array\ndup 65 /alpha put\nreadonly def"))
			if got := text(f, tt.codes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF71MetricsOfTheStandardFonts(t *testing.T) {
	for _, tt := range []struct {
		name, dict, code string
		want             float64 // thousandths, as in Adobe's AFM files
	}{
		{"Helvetica", "/BaseFont /Helvetica", "W", 944},
		{"Helvetica-Oblique", "/BaseFont /Helvetica-Oblique", "W", 944},
		{"Helvetica-Bold", "/BaseFont /Helvetica-Bold", "i", 278},
		{"Times-Roman", "/BaseFont /Times-Roman", "W", 944},
		{"Times-Bold", "/BaseFont /Times-Bold", "W", 1000},
		{"Times-Italic", "/BaseFont /Times-Italic", "W", 833},
		{"Times-BoldItalic", "/BaseFont /Times-BoldItalic", "W", 889},
		{"a ligature", "/BaseFont /Times-Roman", "\xae", 556},
		{"an accented letter", "/BaseFont /Times-Roman /Encoding /WinAnsiEncoding", "\xe9", 444},
		{"a space", "/BaseFont /Times-Roman", " ", 250},
		{"Courier", "/BaseFont /Courier-BoldOblique", "i", 600},
		{"Symbol", "/BaseFont /Symbol", "a", 631},
		{"ZapfDingbats", "/BaseFont /ZapfDingbats", "4", 846},
		{"Arial", "/BaseFont /Arial,Bold", "i", 278},
		{"Times New Roman", "/BaseFont /TimesNewRomanPS-BoldItalicMT", "W", 889},
		{"Times New Roman with spaces", "/BaseFont /ABCDEF+Times#20New#20Roman", "W", 944},
		{"Courier New", "/BaseFont /CourierNewPSMT", "W", 600},
		{"a font with serifs", "/BaseFont /Garamond /FontDescriptor <</Flags 66>>", "W", 833},
		{"a bold font", "/FontDescriptor <</Flags 262144>>", "A", 722},
		{"a font with one width", "/FontDescriptor <</Flags 1>>", "W", 600},
		{"a code without a character", "/BaseFont /Helvetica", "\x01", 500},
		{"no widths in the list", "/BaseFont /Helvetica /Widths []", "W", 944},
		{"an indirect width", "/BaseFont /Helvetica /FirstChar 65 /Widths [4 0 R]", "A", 123},
		{"a width that is none", "/BaseFont /Helvetica /FirstChar 65 /Widths [/x] /FontDescriptor <</MissingWidth 77>>", "A", 77},
		{"no first character but a last", "/LastChar 66 /Widths [700 800]", "A", 700},
		{"neither first nor last character", "/Widths [700 800]", "\x01", 800},
		{"Type 3 on its side", "/Subtype /Type3 /FontMatrix [0 0.01 -0.01 0 0 0] /FirstChar 65 /Widths [50]", "A", 500},
		{"Type 3 without a matrix", "/Subtype /Type3 /FontMatrix [0 0 0 0 0 0] /FirstChar 65 /Widths [50]", "A", 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, _ := load(t, "<</Subtype /Type1 "+tt.dict+">>", "123").Next([]byte(tt.code))
			if math.Abs(g.Width-tt.want/1000) > 1e-9 {
				t.Errorf("got %v, want %v", g.Width*1000, tt.want)
			}
		})
	}
}
