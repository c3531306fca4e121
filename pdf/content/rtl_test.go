package content

import "testing"

func TestF71LinesFromTheRightComeInReadingOrder(t *testing.T) {
	tests := []struct{ name, shown, want string }{
		{"a word", "םולש", "שלום"},
		{"two words", "םלוע םולש", "שלום עולם"},
		{"punctuation at the end of the sentence", ".םולש", "שלום."},
		{"a number", "2026 תנשב", "בשנת 2026"},
		{"a number with a point", "3.14 אוה", "הוא 3.14"},
		{"two numbers apart", "20 10 םירפסמ", "מספרים 10 20"},
		{"a word from the left", "PDF ץבוק אוה", "הוא קובץ PDF"},
		{"two words from the left", "an ox איה וז", "זו היא an ox"},
		{"in a line from the left", "The word םולש means peace", "The word שלום means peace"},
		{"two words with a number between in a line from the left", "see דומע 12 קרפ here it is", "see פרק 12 עמוד here it is"},
		{"presentation forms", "ﻼﻫا", "اﻫﻼ"},
		{"nothing from the right", "plain 12 text", "plain 12 text"},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		if got := string(reorder([]byte(tt.shown))); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestF71LinesAreTurnedOneByOne(t *testing.T) {
	l := layout{limit: 1000, page: everywhere}
	for y, line := range []string{"first", "םולש", "last 12"} {
		x := 0.0
		for _, r := range line {
			l.place(&glyph{text: string(r), x: x, y: float64(-20 * y), endX: x + 5, endY: float64(-20 * y), size: 10, alongX: 1})
			x += 5
		}
	}
	if got, want := l.finish(), "first\nשלום\nlast 12"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
