package relay

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// minPrompt is the shortest prompt, in bytes, that is taken out of what a program writes: a shorter one is in each text.
	minPrompt = 4
	// promptPart is how many bytes of a prompt are taken out wherever they are: programs cut and wrap what they write.
	promptPart = 24
	promptMark = "[prompt]"
)

// promptFilter takes a prompt out of what its program writes: as it is, as logs and JSON have it, each of its lines, and
// what is left of it where it was cut. A nil filter takes nothing out.
type promptFilter struct {
	whole *strings.Replacer
	parts map[string]bool // all of promptPart bytes
}

func newPromptFilter(prompt string) *promptFilter {
	prompt = strings.TrimSpace(prompt)
	if len(prompt) < minPrompt {
		return nil
	}
	forms := []string{prompt, jobs.VisibleLine(prompt)}
	for _, html := range []bool{true, false} { // Go writes < > & as \u003c and so on, others as they are
		text := inJSON(prompt, html)
		forms = append(forms, text, ascii(text))
	}
	f := &promptFilter{parts: map[string]bool{}}
	for _, form := range forms {
		for i := range max(0, len(form)-promptPart+1) {
			f.parts[form[i:i+promptPart]] = true
		}
	}
	for line := range strings.Lines(prompt) { // a program may write them one by one
		if line = strings.TrimSpace(line); len(line) >= 2*minPrompt {
			forms = append(forms, line, jobs.Visible(line))
		}
	}
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, promptMark)
	}
	f.whole = strings.NewReplacer(pairs...)
	return f
}

// clean returns a text without the prompt.
func (f *promptFilter) clean(text string) string {
	if f == nil {
		return text
	}
	text = f.whole.Replace(text)
	var b strings.Builder
	kept := 0
	for i := 0; i+promptPart <= len(text); i++ {
		if !f.parts[text[i:i+promptPart]] {
			continue
		}
		end := i + promptPart
		for end < len(text) && f.parts[text[end+1-promptPart:end+1]] {
			end++
		}
		b.WriteString(text[kept:i] + promptMark)
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
