package redact

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

const (
	minPassage  = 4  // bytes; a shorter passage is in each text
	passagePart = 24 // bytes; so many of a passage are removed wherever they are: programs cut and wrap what they write
)

// Passage removes one known text, such as a prompt, from others: as it is, as logs and JSON have it, each of its lines, and
// what is left of it where it was cut. A nil Passage removes nothing.
type Passage struct {
	mark  string
	whole *strings.Replacer
	parts map[string]bool // all of passagePart bytes
}

// NewPassage returns what replaces a text by a mark; nil for a text of less than 4 bytes. shown returns a text as logs
// have it.
func NewPassage(text, mark string, shown func(string) string) *Passage {
	text = strings.TrimSpace(text)
	if len(text) < minPassage {
		return nil
	}
	forms := []string{text, strings.NewReplacer("\n", " ", "\t", " ").Replace(shown(text))}
	for _, html := range []bool{true, false} { // Go writes < > & as \u003c and so on, others as they are
		quoted := inJSON(text, html)
		forms = append(forms, quoted, ascii(quoted))
	}
	p := &Passage{mark: mark, parts: map[string]bool{}}
	for _, form := range forms {
		for i := range max(0, len(form)-passagePart+1) {
			p.parts[form[i:i+passagePart]] = true
		}
	}
	for line := range strings.Lines(text) { // a program may write them one by one
		if line = strings.TrimSpace(line); len(line) >= 2*minPassage {
			forms = append(forms, line, shown(line))
		}
	}
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, mark)
	}
	p.whole = strings.NewReplacer(pairs...)
	return p
}

// Remove returns a text without the passage.
func (p *Passage) Remove(text string) string {
	if p == nil {
		return text
	}
	text = p.whole.Replace(text)
	var b strings.Builder
	kept := 0
	for i := 0; i+passagePart <= len(text); i++ {
		if !p.parts[text[i:i+passagePart]] {
			continue
		}
		end := i + passagePart
		for end < len(text) && p.parts[text[end+1-passagePart:end+1]] {
			end++
		}
		b.WriteString(text[kept:i] + p.mark)
		kept, i = end, end-1
	}
	if kept == 0 {
		return text
	}
	return strings.ToValidUTF8(b.String()+text[kept:], "\uFFFD") // a part may begin or end within a character
}

// inJSON returns what stands between the quotes of a text in JSON, with what HTML has a meaning for escaped or not.
func inJSON(text string, html bool) string {
	var b strings.Builder
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(html)
	_ = to.Encode(text) // a string has a text
	return strings.TrimSuffix(b.String()[1:], "\"\n")
}

// ascii writes all but ASCII as JSON may have it, and Python does.
func ascii(text string) string {
	var b []byte
	for _, r := range text {
		switch {
		case r < 0x80:
			b = append(b, byte(r))
		case r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
	}
	return string(b)
}
