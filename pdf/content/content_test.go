package content_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/content"
	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// Every glyph of font F is half as wide as it is high; V writes from top to
// bottom; X is an image, Y a form that draws itself, Z one that uses the
// resources of its page.
const resources = `<</Font <</F 3 0 R /V 4 0 R>> /XObject <</X 5 0 R /Y 6 0 R /Z 7 0 R /L 8 0 R>> /ExtGState <</G <</Font [3 0 R 10]>>>>
	/Properties <</On 9 0 R /Off 10 0 R /M <</Type /OCMD /OCGs [9 0 R 10 0 R]>> /Deleted <</Type /OCMD /OCGs [null]>>
	/All <</Type /OCMD /OCGs [9 0 R 10 0 R] /P /AllOn>> /AnyOff <</Type /OCMD /OCGs [9 0 R 10 0 R] /P /AnyOff>>
	/AllOff <</Type /OCMD /OCGs 10 0 R /P /AllOff>>
	/Not <</Type /OCMD /VE [/Not 9 0 R]>> /Or <</Type /OCMD /VE [/Or 10 0 R [/Not 10 0 R]]>> /And <</Type /OCMD /VE [/And 9 0 R 10 0 R]>>
	/Text <</ActualText (said)>>>>>>`

// catalog has a layer that is on and one that is off.
const catalog = "<</OCProperties <</OCGs [9 0 R 10 0 R] /D <</OFF [10 0 R]>>>>>>"

func open(tb testing.TB, contents, annotations string) (*cos.File, content.Page) {
	tb.Helper()
	b := pdftest.Pages()
	b.Set(1, catalog)
	b.Set(3, "<</Subtype /Type1 /Encoding /WinAnsiEncoding /FirstChar 0 /Widths [%s]>>", strings.Repeat("500 ", 256))
	b.Add("<</Subtype /Type0 /Encoding /UniJIS-UTF16-V /DescendantFonts [<<>>]>>")
	b.Stream("/Subtype /Image", "x")
	b.Stream("/Subtype /Form /Matrix [1 0 0 1 0 -100] /Resources "+resources, "BT /F 10 Tf (form) Tj ET /Y Do /X Do")
	b.Stream("/Subtype /Form", "BT /F 10 Tf (inherits) Tj ET")
	b.Stream("/Subtype /Form /OC 10 0 R", "BT /F 10 Tf (layer) Tj ET")
	b.Add("<</Type /OCG>>")
	b.Add("<</Type /OCG>>")
	page := b.Stream("", contents)
	n := b.Add("<</Contents %d 0 R /Annots [%s]>>", page, annotations)
	f, err := cos.Open(b.Table(""), cos.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	res, _, _ := cos.NewParser([]byte(resources)).Next()
	return f, content.Page{Dict: f.Dict(cos.Ref{Num: uint32(n)}), Resources: res, MediaBox: cos.Array{-500, -500, 500, 500}}
}

func read(t *testing.T, contents, annotations string) content.Result {
	t.Helper()
	f, page := open(t, contents, annotations)
	got, err := content.NewReader(f, content.Limits{Operators: 10_000, Text: 10_000}).Read(page)
	if err != nil {
		t.Error(err)
	}
	return got
}

// shown is what a page shows, and the text that is read of it.
type shown struct{ name, contents, want string }

// readEach reads the contents of each test between before and after.
func readEach(t *testing.T, before, after string, tests []shown) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(t, before+tt.contents+after, "").Text; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestF71Operators(t *testing.T) {
	tests := []shown{
		{"Tj", "(a) Tj", "a"},
		{"TJ keeps kerned letters together", "[(a) -50 (b) 120 (c)] TJ", "abc"},
		{"TJ parts words at gaps", "[(a) -250 (b)] TJ", "a b"},
		{"Td along the line, next to the end", "(ab) Tj 10 0 Td (c) Tj", "abc"},
		{"Td along the line, with a gap", "(ab) Tj 13 0 Td (c) Tj", "ab c"},
		{"Td down", "(a) Tj 0 -12 Td (b) Tj", "a\nb"},
		{"TD sets the leading", "(a) Tj 0 -12 TD (b) Tj T* (c) Tj", "a\nb\nc"},
		{"quote", "12 TL (a) Tj (b) '", "a\nb"},
		{"double quote", `12 TL (a) Tj 0 0 (b) "`, "a\nb"},
		{"double quote sets character spacing", `12 TL 0 5 (bc) " 20 0 Td (d) Tj`, "bcd"},
		{"Tm", "1 0 0 1 50 50 Tm (a) Tj 1 0 0 1 55 50 Tm (b) Tj", "ab"},
		{"superscript on the line", "(a) Tj 3 Ts (2) Tj 0 Ts (b) Tj", "a2b"},
		{"word spacing alone makes no word of nothing", "90 Tw (a b) Tj", "a b"},
		{"horizontal scaling", "50 Tz (ab) Tj 5 0 Td (c) Tj", "abc"},
		{"spaces in a row are one", "(a   b ) Tj ( c) Tj", "a b c"},
		{"back to the left is a new line", "(abcdef) Tj -50 0 Td (g) Tj", "abcdef\ng"},
		{"an accent before its letter", "(na) Tj 1 0 Td 9 0 Td (\xa8) Tj 0.5 0 Td (i) Tj 5 0 Td (ve) Tj", "naïve"},
		{"an accent beside a letter", "(e\xb4) Tj", "e´"},
		{"an accent over what takes none", "(+) Tj 1 0 Td (\xb4) Tj", "+´"},
		{"an accent over its letter", "(e) Tj 1 0 Td (\xb4) Tj", "é"},
		{"turned text is a line of its own", "(a) Tj 0 1 -1 0 5 0 Tm (bc) Tj", "a\nbc"},
		{"scaled by cm", "ET q 2 0 0 2 0 0 cm BT /F 10 Tf (ab) Tj ET Q BT /F 10 Tf 20 0 Td (c) Tj", "abc"},
		{"q and Q", "q /F 99 Tf Q (ab) Tj 10 0 Td (c) Tj", "abc"},
		{"font of a graphics state", "/F 99 Tf /G gs (ab) Tj 10 0 Td (c) Tj", "abc"},
		{"unknown font", "/Nowhere 10 Tf (a) Tj", "a"},
		{"unknown operators", "1 2 3 foo (a) Tj bar << /A [1] >> BDC (b) Tj", "ab"},
		{"too few operands", "Tf Td Tm cm Tj TJ ' \" Do gs /F Tf Q Q (a) Tj", "a"},
		{"form", "(a) Tj ET /Y Do", "a\nform"},
		{"form without resources", "(a) Tj ET 1 0 0 1 0 -50 cm /Z Do", "a\ninherits"},
		{"inline image", "(a) Tj BI /W 1 /H 1 ID (x) Tj\x80 EI (b) Tj", "ab"},
		{"inline image, raw", "(a) Tj BI /W 2 /H 3 /CS /RGB /BPC 8 ID 0123 EI Q901234567 EI (b) Tj", "ab"},
		{"inline mask, raw", "(a) Tj BI /W 9 /H 2 /IM true ID 0 EIEI (b) Tj", "ab"},
		{"inline image in base 85", "(a) Tj BI /F [/A85 /Fl] /DP [null <</K 1>>] ID J,~>EI (b) Tj", "ab"},
		{"inline image in hexadecimal", "(a) Tj BI /Filter /ASCIIHexDecode /Width 1 /Height 1 ID 80>EI (b) Tj", "ab"},
		{"more states saved than are kept", strings.Repeat("q ", 600) + "1 0 0 1 5000 0 cm " + strings.Repeat("Q ", 88) + "(a) Tj", ""},
		{"more states saved than are kept, and restored", strings.Repeat("q ", 600) + "1 0 0 1 5000 0 cm " + strings.Repeat("Q ", 600) + "(a) Tj", "a"},
		{"vertical writing", "/V 10 Tf <65e5672c> Tj 20 0 Td <8a9e> Tj", "日本\n語"},
		{"a footnote mark", "(word) Tj 0.6 0 0 0.6 20 4 Tm (1) Tj", "word1"},
		{"an exponent and what follows", "(x) Tj 0.6 0 0 0.6 5 4 Tm (2) Tj 1 0 0 1 8 0 Tm (y) Tj", "x2y"},
		{"ligature characters", "/V 10 Tf <FB01> Tj", "fi"},
		{"control characters are a gap", "/V 10 Tf <006100010062> Tj", "a b"},
	}
	readEach(t, "BT /F 10 Tf ", "", tests)
}

func TestF71TextDrawnTwiceIsReadOnce(t *testing.T) {
	tests := []shown{
		{"bold by drawing the line again", "(Bold text) Tj 0.3 0 Td (Bold text) Tj", "Bold text"},
		{"bold by drawing each letter again", "(a) Tj 0.3 0 Td (a) Tj 4.7 0 Td (b) Tj 0.3 0 Td (b) Tj", "ab"},
		{"a shadow", "(ab) Tj 0.8 -0.8 Td (ab) Tj", "ab"},
		{"text goes on after it", "(ab) Tj 0.3 0 Td (ab) Tj ( and so on) Tj", "ab and so on"},
		{"other text at the same place", "(abc) Tj 0 0 Td (def) Tj", "abc\ndef"},
		{"the same text elsewhere", "(abc) Tj 30 0 Td (abc) Tj", "abc abc"},
		{"letters in pairs", "(aa) Tj (bb) Tj", "aabb"},
		{"the same text below", "(ab) Tj 0 -12 Td (ab) Tj", "ab\nab"},
	}
	readEach(t, "BT /F 10 Tf ", "", tests)
}

func TestF71Type3GlyphsInUnitsOfThePage(t *testing.T) {
	// Glyphs are 30 units wide for a font size of 1, one of them 33 from the
	// last: rounded, not a gap.
	f, page := open(t, "BT /F 1 Tf (ab) Tj 63 0 Td (c) Tj 45 0 Td (d) Tj", "")
	widths := make(cos.Array, 256)
	for i := range widths {
		widths[i] = 30
	}
	font := cos.Dict{"Subtype": cos.Name("Type3"), "FontMatrix": cos.Array{1, 0, 0, 1, 0, 0}, "FirstChar": 0, "Widths": widths, "Encoding": cos.Name("WinAnsiEncoding")}
	page.Resources = cos.Dict{"Font": cos.Dict{"F": font}}
	got, err := content.NewReader(f, content.Limits{Operators: 10_000, Text: 100}).Read(page)
	if err != nil || got.Text != "abc d" {
		t.Errorf("got %q, %v", got.Text, err)
	}
}

func TestF71LayersThatAreOffAreNotRead(t *testing.T) {
	tests := []shown{
		{"on", "/OC /On BDC (b) Tj EMC", "abc"},
		{"off", "/OC /Off BDC (b) Tj EMC", "a c"},
		{"nested in off", "/OC /Off BDC /OC /On BDC (b) Tj EMC (b) Tj EMC", "a c"},
		{"unknown", "/OC /Nowhere BDC (b) Tj EMC", "abc"},
		{"not a layer", "/Span /Off BDC (b) Tj EMC", "abc"},
		{"any of two", "/OC /M BDC (b) Tj EMC", "abc"},
		{"both of two", "/OC /All BDC (b) Tj EMC", "a c"},
		{"any off", "/OC /AnyOff BDC (b) Tj EMC", "abc"},
		{"all off", "/OC /AllOff BDC (b) Tj EMC", "abc"},
		{"deleted", "/OC /Deleted BDC (b) Tj EMC", "abc"},
		{"not", "/OC /Not BDC (b) Tj EMC", "a c"},
		{"or", "/OC /Or BDC (b) Tj EMC", "abc"},
		{"and", "/OC /And BDC (b) Tj EMC", "a c"},
		{"nested deeper than is followed", "/OC /Off BDC " + strings.Repeat("/P BMC ", 600) + "(b) Tj " + strings.Repeat("EMC ", 600) + "EMC", "a c"},
		{"never ended", "/OC /Off BDC (b) Tj ET /Z Do BT /F 10 Tf", "a"},
	}
	readEach(t, "BT /F 10 Tf (a) Tj ", " (c) Tj", tests)
	if got := read(t, "/L Do /OC /Off BDC /X Do BI ID x EI EMC /X Do", "<</Subtype /Widget /OC 10 0 R /AP <</N 7 0 R>>>> <</Subtype /Widget /AP <</N 8 0 R>>>>"); got.Text != "" || got.Images != 1 {
		t.Errorf("form, images and annotations on a layer that is off: got %+v", got)
	}
}

func TestF71ActualTextStandsForWhatIsShown(t *testing.T) {
	tests := []shown{
		{"inline", "/Span <</Lang (en) /ActualText (ffi)>> BDC (\xff) Tj EMC", "affic"},
		{"in the resources", "/Span /Text BDC (xxxx) Tj EMC", "asaidc"},
		{"UTF-16", "/Span <</ActualText <FEFF00E9>>> BDC (x) Tj EMC", "aéc"},
		{"nothing", "/Span <</ActualText ()>> BDC (-) Tj EMC", "ac"},
		{"nested: the outer stands for both", "/Span <</ActualText (A)>> BDC (x) Tj /Span <</ActualText (B)>> BDC (x) Tj EMC (x) Tj EMC", "aAc"},
		{"of nothing shown", "/Span <</ActualText (b)>> BDC EMC", "ac"},
		{"of what is far", "/Span <</ActualText (b)>> BDC 50 0 Td (xx) Tj EMC", "a bc"},
		{"never ended", "(b) Tj /Span <</ActualText (d)>> BDC (x) Tj", "abd"},
		{"an end without a beginning", "EMC EMC (b) Tj", "abc"},
		{"marked content without text of its own", "/P <</MCID 0>> BDC (b) Tj EMC /Artifact BMC (-) Tj EMC", "ab-c"},
	}
	readEach(t, "BT /F 10 Tf (a) Tj ", " (c) Tj", tests)
}

func TestF71TextOutsideThePageIsNotRead(t *testing.T) {
	tests := []shown{
		{"above", "1 0 0 1 0 510 Tm (out) Tj", "in"},
		{"below", "1 0 0 1 0 -520 Tm (out) Tj", "in"},
		{"left", "1 0 0 1 -530 0 Tm (out) Tj", "in"},
		{"right", "1 0 0 1 501 0 Tm (out) Tj", "in"},
		{"across the edge", "1 0 0 1 492 0 Tm (out) Tj", "in ou"},
		{"at the edge", "1 0 0 1 480 499 Tm (out) Tj", "in\nout"},
	}
	readEach(t, "BT /F 10 Tf (in) Tj ", "", tests)
}

func TestF72ImagesAreCounted(t *testing.T) {
	got := read(t, "/X Do /X Do /Y Do BI ID \x80 EI /Nowhere Do /Z Do", "")
	if got.Images != 4 { // two, one in the form, one inline
		t.Errorf("got %d, want 4", got.Images)
	}
}

func TestF71Annotations(t *testing.T) {
	annotation := func(entries string) string {
		return fmt.Sprintf("<</Subtype /Widget /Rect [0 0 9 9] /AP <</N 7 0 R>> %s>>", entries)
	}
	tests := []struct{ name, annotations, want string }{
		{"shown", annotation("/F 4"), "page\ninherits"},
		{"hidden", annotation("/F 2"), "page"},
		{"not for the screen", annotation("/F 32"), "page"},
		{"popup", "<</Subtype /Popup /AP <</N 7 0 R>>>>", "page"},
		{"by state", "<</AS /On /AP <</N <</On 6 0 R /Off 7 0 R>>>>>>", "page\nform"},
		{"without an appearance", "<</Contents (a note)>> null 99 0 R", "page"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(t, "BT /F 10 Tf (page) Tj ET", tt.annotations).Text; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
