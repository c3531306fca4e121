package content_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/pdf/content"
	"github.com/batchfleet/batchfleet/pdf/cos"
	"github.com/batchfleet/batchfleet/pdf/font"
	"github.com/batchfleet/batchfleet/pdf/pdftest"
)

// Every glyph of font F is half as wide as it is high; V writes from top to
// bottom; X is an image, Y a form that draws itself, Z one that uses the
// resources of its page.
const resources = `<</Font <</F 3 0 R /V 4 0 R>> /XObject <</X 5 0 R /Y 6 0 R /Z 7 0 R>> /ExtGState <</G <</Font [3 0 R 10]>>>>>>`

func read(t *testing.T, contents, annotations string) content.Result {
	t.Helper()
	b := pdftest.Pages()
	b.Set(3, "<</Subtype /Type1 /Encoding /WinAnsiEncoding /FirstChar 0 /Widths [%s]>>", strings.Repeat("500 ", 256))
	b.Add("<</Subtype /Type0 /Encoding /UniJIS-UTF16-V /DescendantFonts [<<>>]>>")
	b.Stream("/Subtype /Image", "x")
	b.Stream("/Subtype /Form /Matrix [1 0 0 1 0 -100] /Resources "+resources, "BT /F 10 Tf (form) Tj ET /Y Do /X Do")
	b.Stream("/Subtype /Form", "BT /F 10 Tf (inherits) Tj ET")
	page := b.Stream("", contents)
	n := b.Add("<</Contents %d 0 R /Annots [%s]>>", page, annotations)
	f, err := cos.Open(b.Table(""), cos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, _, _ := cos.NewParser([]byte(resources)).Next()
	got, err := content.Read(f, &font.Cache{File: f}, f.Dict(cos.Ref{Num: uint32(n)}), res, content.Limits{Operators: 10_000, Text: 10_000})
	if err != nil {
		t.Error(err)
	}
	return got
}

func TestF71Operators(t *testing.T) {
	tests := []struct{ name, contents, want string }{
		{"Tj", "(a) Tj", "a"},
		{"TJ keeps kerned letters together", "[(a) -50 (b) 120 (c)] TJ", "abc"},
		{"TJ parts words at gaps", "[(a) -250 (b)] TJ", "a b"},
		{"Td along the line, next to the end", "(ab) Tj 10 0 Td (c) Tj", "abc"},
		{"Td along the line, with a gap", "(ab) Tj 13 0 Td (c) Tj", "ab c"},
		{"Td down", "(a) Tj 0 -12 Td (b) Tj", "a\nb"},
		{"TD sets the leading", "(a) Tj 0 -12 TD (b) Tj T* (c) Tj", "a\nb\nc"},
		{"quote", "12 TL (a) Tj (b) '", "a\nb"},
		{"double quote", `12 TL (a) Tj 0 0 (b) "`, "a\nb"},
		{"double quote sets character spacing", `12 TL 0 5 (bc) "`, "b c"},
		{"Tm", "1 0 0 1 50 50 Tm (a) Tj 1 0 0 1 55 50 Tm (b) Tj", "ab"},
		{"superscript on the line", "(a) Tj 3 Ts (2) Tj 0 Ts (b) Tj", "a2b"},
		{"character spacing", "4 Tc (ab) Tj", "a b"},
		{"word spacing alone makes no word of nothing", "90 Tw (a b) Tj", "a b"},
		{"horizontal scaling", "50 Tz (ab) Tj 5 0 Td (c) Tj", "abc"},
		{"spaces in a row are one", "(a   b ) Tj ( c) Tj", "a b c"},
		{"back to the left is a new line", "(abcdef) Tj -50 0 Td (g) Tj", "abcdef\ng"},
		{"an accent over its letter", "(e) Tj 1 0 Td (\xb4) Tj", "e´"},
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
		{"vertical writing", "/V 10 Tf <65e5672c> Tj 20 0 Td <8a9e> Tj", "日本\n語"},
		{"ligature characters", "/V 10 Tf <FB01> Tj", "fi"},
		{"control characters", "/V 10 Tf <006100010062> Tj", "ab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(t, "BT /F 10 Tf "+tt.contents, "").Text; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
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
