package font

import (
	_ "embed"
	"strconv"
	"strings"
	"unicode/utf8"
)

// adobeNames is the Adobe Glyph List.
//
//go:embed glyphnames.txt
var adobeNames nameTable

// moreNames goes before the Adobe Glyph List. It has the names of TeX's fonts,
// and those that Adobe's list maps to its private characters, which mean
// nothing outside of its fonts: small capitals, old-style and superior figures,
// the parts of tall brackets. Ligatures are taken apart, because text is
// searched for letters, not for the shapes they were set in.
//
//go:embed morenames.txt
var moreNames nameTable

// nameTable is lines of a glyph name, a space and its text, sorted by the bytes
// of the name. It is searched as it is: a document needs a few dozen of some
// thousand names, fewer than it would pay to make a map for.
type nameTable string

func (t nameTable) text(name string) (text string, ok bool) {
	for len(t) > 0 {
		middle := len(t) / 2
		start := strings.LastIndexByte(string(t[:middle]), '\n') + 1
		end := len(t)
		if n := strings.IndexByte(string(t[start:]), '\n'); n >= 0 {
			end = start + n
		}
		have, text, _ := strings.Cut(string(t[start:end]), " ")
		switch {
		case have == name:
			return text, true
		case have < name:
			t = t[min(end+1, len(t)):]
		default:
			t = t[:start]
		}
	}
	return "", false
}

// maxGlyphName bounds the names that are looked at; the longest known has about
// 60 bytes.
const maxGlyphName = 256

// GlyphText returns the text a glyph of this name stands for, by the rules of
// the Adobe Glyph List specification, then by those of old TeX and PDF
// writers: "a65" and "c65" are character 65. It returns "" for names that say
// nothing.
func GlyphText(name string) string {
	if text := knownText(name); text != "" {
		return text
	}
	return numberedText(name)
}

// knownText is GlyphText without the rules of old writers.
func knownText(name string) string {
	if len(name) > maxGlyphName {
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
	const maxComponents = 16
	if strings.Count(name, "_") >= maxComponents {
		return ""
	}
	var text strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		text.WriteString(componentText(part))
	}
	return text.String()
}

func componentText(name string) string {
	if text, ok := moreNames.text(name); ok {
		return text
	}
	if text, ok := adobeNames.text(name); ok {
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
	return ""
}

// uniText reads groups of four hexadecimal digits; what follows the last whole
// group is ignored.
func uniText(digits string) (string, bool) {
	var text strings.Builder
	for ; len(digits) >= 4; digits = digits[4:] {
		v, err := strconv.ParseUint(digits[:4], 16, 32)
		if err != nil || !utf8.ValidRune(rune(v)) {
			break
		}
		text.WriteRune(rune(v))
	}
	return text.String(), text.Len() > 0
}

// numberedText reads up to three letters and a character code. Names with a "g"
// number glyphs, not characters.
func numberedText(name string) string {
	digits := strings.TrimLeft(name, asciiLetters)
	letters := name[:len(name)-len(digits)]
	if len(letters) < 1 || len(letters) > 3 || letters[0]|0x20 == 'g' || letters == "cid" {
		return ""
	}
	if v, err := strconv.Atoi(digits); err == nil && v >= 32 && v < 256 {
		return string(rune(v))
	}
	return ""
}

const asciiLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
