package content_test

import "testing"

// Letters are five units wide and of size 10, so a gap of more than 1.1 is one
// between words.
func TestF78LetterspacedTextKeepsItsWords(t *testing.T) {
	readEach(t, "BT /F 10 Tf ", "", []shown{
		{"without words", "4 Tc (ab) Tj", "ab"},
		{"with a space", "4 Tc (Hello World) Tj", "Hello World"},
		{"with two spaces", "4 Tc (Hello  World) Tj", "Hello World"},
		{"with a gap", "4 Tc [(Hello) -200 (World)] TJ", "Hello World"},
		{"with a gap before a string", "4 Tc (He) Tj 18 0 Td (llo) Tj 30 0 Td (World) Tj", "Hello World"},
		{"in the midst of other text", "(so ) Tj 4 Tc (Hello World) Tj 0 Tc ( and on) Tj", "so Hello World and on"},
		{"the spacing ends with its text", "4 Tc (Hello) Tj 0 Tc (on) Tj 60 0 Td (o) Tj", "Helloon o"},
		{"stretched", "4 Tc 150 Tz (Hello World) Tj", "Hello World"},
		{"turned and scaled", "0 2 -2 0 0 0 Tm 4 Tc (Hello World) Tj", "Hello World"},
		{"from top to bottom", "/V 10 Tf -4 Tc <65e5672c> Tj 0 Tc 0 -33 Td <8a9e> Tj", "日本 語"},
		{"dots", "4 Tc (so ...) Tj", "so . . ."},
		{"a gap between words made of it, as Ghostscript does", "(th) Tj 3 Tc (eo) Tj 0 Tc 23 0 Td (f) Tj", "the of"},
		{"the same at the beginning of a line", "3 Tc (As) Tj 0 Tc 13 0 Td (low) Tj", "A slow"},
		{"the same at its end", "(take) Tj 3 Tc (sa) Tj", "takes a"},
		{"the same, taken back between letters", "3 Tc [(h)300(ao)300(fi)300(to)300(ra)300(n)]TJ", "ha of it or an"},
		{"less than none", "-2 Tc [(Hello) -350 (World)] TJ", "Hello World"},
	})
}
