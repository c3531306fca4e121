package font

import (
	"testing"

	"golang.org/x/text/encoding/charmap"
)

func TestF71CharacterSets(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  []rune
		want *charmap.Charmap
	}{
		{"Macintosh", macintosh, charmap.Macintosh},
		{"Windows 1252", windows1252, charmap.Windows1252},
	} {
		for code := range 256 {
			want := string(tt.want.DecodeByte(byte(code)))
			if r := []rune(want)[0]; r < ' ' || r >= 0x7F && r <= 0x9F || r == '\uFFFD' || r == '\uF8FF' {
				want = ""
			}
			if got := characterOf(tt.set, byte(code)); got != want {
				t.Errorf("%s: code %#x is %q, want %q", tt.name, code, got, want)
			}
		}
	}
}
