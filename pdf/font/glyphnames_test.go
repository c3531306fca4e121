package font

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The tables are searched as they are, so they must be in order.
func TestF71EveryGlyphNameIsFound(t *testing.T) {
	for table, lines := range map[string]nameTable{"glyphnames.txt": adobeNames, "morenames.txt": moreNames} {
		before := ""
		for line := range strings.Lines(string(lines)) {
			name, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if !ok || want == "" || !utf8.ValidString(want) || name <= before {
				t.Errorf("%s: line %q after %q", table, line, before)
			}
			before = name
			if got, ok := lines.text(name); !ok || got != want {
				t.Errorf("%s: %s is %q, %v, want %q", table, name, got, ok, want)
			}
		}
	}
}

func TestNoGlyphNameIsFoundByItsBeginning(t *testing.T) {
	for _, name := range []string{"", "AEacut", "AEacutee", "\xff", "zzzz", " ", "\n"} {
		if text, ok := adobeNames.text(name); ok {
			t.Errorf("%q is %q", name, text)
		}
	}
}

// Adobe's private characters mean nothing outside of its fonts.
func TestF71MoreNamesHaveNoPrivateCharacters(t *testing.T) {
	for _, r := range string(moreNames) {
		if isPrivate(r) {
			t.Errorf("%U", r)
		}
	}
}

func BenchmarkGlyphText(b *testing.B) {
	for b.Loop() {
		GlyphText("Adieresis")
	}
}
