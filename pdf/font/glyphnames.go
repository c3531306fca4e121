package font

import (
	_ "embed"
	"maps"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:generate sh -c "go run gen_glyphnames.go < glyphlist.txt > glyphnames.txt"

//go:embed glyphnames.txt
var glyphList string

// glyphNames maps the names of the Adobe Glyph List to their text. It is made
// at the first need, about a millisecond.
var glyphNames = sync.OnceValue(func() map[string]string {
	m := make(map[string]string, 4300)
	for line := range strings.Lines(glyphList) {
		if name, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			m[name] = text
		}
	}
	// Text is searched for letters, not for the shapes they were set in.
	maps.Copy(m, map[string]string{"ff": "ff", "fi": "fi", "fl": "fl", "ffi": "ffi", "ffl": "ffl"})
	return m
})

// GlyphText returns the text a glyph of this name stands for, by the rules of
// the Adobe Glyph List specification, then by those of old TeX and PDF
// writers: "a65" and "c65" are character 65. It returns "" for names that say
// nothing.
func GlyphText(name string) string {
	if len(name) > 256 { // longest known: about 60
		return ""
	}
	if i := strings.IndexByte(name, '.'); i >= 0 {
		name = name[:i] // "a.sc", "one.oldstyle"; ".notdef" becomes nothing
	}
	if name == "" {
		return ""
	}
	if !strings.Contains(name, "_") {
		return componentText(name)
	}
	var text strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		text.WriteString(componentText(part))
	}
	return text.String()
}

func componentText(name string) string {
	if text, ok := glyphNames()[name]; ok {
		return text
	}
	if digits, ok := strings.CutPrefix(name, "uni"); ok && len(digits) >= 4 {
		if text, ok := uniText(digits); ok {
			return text
		}
	}
	if digits, ok := strings.CutPrefix(name, "u"); ok && len(digits) >= 4 && len(digits) <= 6 {
		if v, err := strconv.ParseUint(digits, 16, 32); err == nil && utf8.ValidRune(rune(v)) {
			return string(rune(v))
		}
	}
	return numberedText(name)
}

// uniText reads groups of four hexadecimal digits; what follows the last whole
// group is ignored.
func uniText(digits string) (string, bool) {
	var text strings.Builder
	for ; len(digits) >= 4; digits = digits[4:] {
		v, err := strconv.ParseUint(digits[:4], 16, 32)
		if err != nil {
			break
		}
		text.WriteRune(rune(v))
	}
	return text.String(), text.Len() > 0
}

// numberedText reads up to three letters and a character code.
func numberedText(name string) string {
	digits := strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	if letters := len(name) - len(digits); letters < 1 || letters > 3 {
		return ""
	}
	if v, err := strconv.Atoi(digits); err == nil && v >= 32 && v < 256 {
		return string(rune(v))
	}
	return ""
}
