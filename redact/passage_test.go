package redact_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// Python's json.dumps escapes what is not ASCII, and leaves what HTML has a meaning for.
func TestR72ThePromptInJSONOfOtherLanguagesIsTakenOut(t *testing.T) {
	const prompt, mark = "<lora:canary:0.8> \"red\" & blué\ncanary", "[prompt]"
	passage := redact.NewPassage(prompt, mark, jobs.Visible)
	for name, printed := range map[string]string{
		"Python":     `{"prompt": "<lora:canary:0.8> \"red\" & blu\u00e9\ncanary"}`,
		"JavaScript": `{"prompt":"<lora:canary:0.8> \"red\" & blué\ncanary"}`,
		"Go":         `{"prompt":"\u003clora:canary:0.8\u003e \"red\" \u0026 blué\ncanary"}`,
	} {
		if got := passage.Remove(printed); strings.Contains(got, "canary") || strings.Contains(got, "red") || !strings.Contains(got, mark) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// No part of a prompt that is long enough is left, whatever is around it, and the rest stays.
func FuzzR71PromptIsTakenOut(f *testing.F) {
	const part = 24 // bytes that are removed wherever they are
	f.Add("a red robot that dances in the rain", "prompt: ", 3, 30)
	f.Add("[prompt][prompt][prompt][prompt]", "[prompt]", 0, 32)
	f.Add(strings.Repeat("a", 100), strings.Repeat("a", 50), 10, 90)
	f.Add(strings.Repeat("雨", 30), "在", 1, 50)
	f.Add("line one of it\nline two of it", "\xff", 0, 20)
	f.Fuzz(func(t *testing.T, prompt, around string, from, to int) {
		passage := redact.NewPassage(prompt, "[prompt]", jobs.Visible)
		if passage == nil || !utf8.ValidString(prompt) { // a prompt has come as JSON
			return
		}
		trimmed := strings.TrimSpace(prompt)
		for _, text := range []string{around, trimmed, around + trimmed + around, around + trimmed[min(max(0, from), len(trimmed)):]} {
			got := passage.Remove(text)
			if len(trimmed) >= part {
				for i := range len(trimmed) - part + 1 {
					if kept := trimmed[i : i+part]; !strings.ContainsAny(kept, "[]") && strings.Contains(got, kept) {
						t.Errorf("prompt %q in %q leaves %q in %q", prompt, text, kept, got)
					}
				}
			}
			if utf8.ValidString(text) && !utf8.ValidString(got) {
				t.Errorf("prompt %q makes %q of %q", prompt, got, text)
			}
		}
	})
}
