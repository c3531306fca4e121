package relay

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
)

// wordy has words that differ, so that each part of it can be told.
func wordy(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "word%d ", i)
	}
	return strings.TrimSpace(b.String())
}

func TestR71R72TheLogOfAProgramDoesNotHoldThePrompt(t *testing.T) {
	quote := func(s string) string {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	lines := "first line of the canary\nsecond line of the canary\r\n\tthird line of the canary"
	long := wordy(2000)[:maxPrompt]
	chinese := strings.Repeat("一只红色的机器人在雨中跳舞", 3) + "😀 canary"
	for name, tt := range map[string]struct {
		prompt string
		prints []string
		secret []string // what may be in none of the lines
	}{
		"as it is":                   {"a red canary", []string{"prompt: a red canary!"}, []string{"canary"}},
		"with blanks around it":      {"  a red canary \n", []string{"prompt: a red canary!"}, []string{"canary"}},
		"twice":                      {"a red canary", []string{"a red canarya red canary a red canary"}, []string{"canary"}},
		"of four bytes":              {"cana", []string{"prompt cana"}, []string{"cana"}},
		"in JSON":                    {"a \"red\" <canary>\n\\ of é", []string{quote("a \"red\" <canary>\n\\ of é")}, []string{"canary", "red"}},
		"in JSON, nested":            {lines, []string{`{"params":{"prompt":` + quote(lines) + `}}`}, []string{"canary"}},
		"in Go's quotes":             {lines, []string{strconv.Quote(lines)}, []string{"canary"}},
		"in JSON of ASCII":           {chinese, []string{strings.Trim(strconv.QuoteToASCII(chinese), `"`)}, []string{`\u673a\u5668`}},
		"Chinese":                    {chinese, []string{"提示：" + chinese + "。"}, []string{"机器人", "canary"}},
		"line by line":               {lines, []string{"> first line of the canary", "> second line of the canary", "third line of the canary"}, []string{"canary"}},
		"short lines":                {"red canary\nblue bird", []string{"> red canary <", "> blue bird <"}, []string{"canary", "bird"}},
		"short lines as one":         {"canary\nbird\ntree\nhouse\nriver", []string{"of canary bird tree house river"}, []string{"canary", "house"}},
		"lines as one":               {lines, []string{jobs.VisibleLine(lines)}, []string{"canary"}},
		"cut":                        {long, []string{"prompt: " + long[:9000] + " … (line cut)", "... " + long[9100:]}, []string{"word3 ", "word500 ", "word999 ", "word1500 "}},
		"wrapped":                    {long, strings.SplitAfter(wrap(long, 80), "\n"), []string{"word3 ", "word500 ", "word999 ", "word1500 "}},
		"in parts, with other words": {long, []string{"a " + long[:100] + " b " + long[50:200] + " c"}, []string{"word1 ", "word9 ", "word15 "}},
		"control characters":         {"a \x1b[31mred\x1b[0m canary of \u202e text", []string{jobs.Visible("a \x1b[31mred\x1b[0m canary of \u202e text")}, []string{"canary"}},
		"with the mark":              {"[prompt] canary [prompt]", []string{"x [prompt] canary [prompt] y"}, []string{"canary"}},
		"the mark":                   {"[prompt]", []string{"x [prompt] y"}, []string{"[[prompt]"}},
		"a part of the mark":         {"prompt", []string{"the prompt is"}, []string{"the prompt"}},
		"a pattern":                  {"a.*(canary", []string{"x a.*(canary y"}, []string{"canary"}},
	} {
		r := newRig(t)
		id := r.create(`{"job_id":"a","kind":"motion","input":{"prompt":` + quote(tt.prompt) + `}}`)
		h := r.start()
		for i := range tt.prints {
			tt.prints[i] = jobs.LogLine(strings.TrimSuffix(tt.prints[i], "\n"), false)
		}
		h.report(jobs.Progress{Done: 1, Total: 2, Message: jobs.Clip(tt.prints[0], 500, "…")}, append([]string{"it begins"}, tt.prints...)...)
		log := r.read(r.tasks.dir.logFile(id))
		message := r.task(id).Message
		h.end(jobs.Outcome{State: jobs.Failed, Reason: "exit 1: " + jobs.Clip(tt.prints[0], 300, "…")})
		for where, text := range map[string]string{"log": log, "message": message, "error": r.task(id).Error.Message, "task.json": r.read(r.tasks.dir.of(id, taskFile))} {
			for _, secret := range tt.secret {
				if strings.Contains(text, secret) {
					t.Errorf("%s: the %s has %q: %.300s", name, where, secret, text)
				}
			}
			if !utf8.ValidString(text) {
				t.Errorf("%s: the %s is not UTF-8", name, where)
			}
		}
		if !strings.Contains(log, "it begins") || !strings.Contains(log, promptMark) {
			t.Errorf("%s: the log is %.300s", name, log)
		}
	}
}

func wrap(text string, width int) string {
	var b strings.Builder
	for ; len(text) > width; text = text[width:] {
		b.WriteString(text[:width] + "\n")
	}
	return b.String() + text
}

// A prompt takes nothing out of the logs of other tasks, nor what only looks like it.
func TestR71WhatIsNoPromptStaysInTheLog(t *testing.T) {
	r := newRig(t)
	r.create(`{"job_id":"a","kind":"motion","input":{"prompt":"a red robot that dances in the rain"}}`)
	r.create(`{"job_id":"a","kind":"motion","input":{"prompt":"abc"}}`)
	first, second := r.start(), r.start()
	second.report(jobs.Progress{}, "a red robot that dances in the rain", "abc")
	first.report(jobs.Progress{}, "a red robot that sings", "step 3/20")
	for h, want := range map[*hand][]string{first: {"a red robot that sings", "step 3/20"}, second: {"a red robot that dances in the rain", "abc"}} {
		log := r.read(r.tasks.dir.logFile(h.id()))
		for _, line := range want {
			if !strings.Contains(log, "  "+line+"\n") {
				t.Errorf("%q is missing: %s", line, log)
			}
		}
	}
}

func TestR72ThePromptIsOnlyInTheRequest(t *testing.T) {
	r := newRig(t)
	prompt := "prompt-canary " + url.QueryEscape("ü")
	id := r.create(`{"job_id":"a","kind":"motion","input":{"prompt":"` + prompt + `"}}`)
	if text := r.read(r.tasks.dir.of(id, inputDir, requestFile)); !strings.Contains(text, prompt) {
		t.Errorf("request.json: %s", text)
	}
	task := r.onDisk(id)
	if task.Prompt.Bytes != len(prompt) || task.Prompt.SHA256 != hashOf(prompt)[:16] {
		t.Errorf("task.json tells of it %+v", task.Prompt)
	}
	if log := r.log.String(); strings.Contains(log, "canary") || !strings.Contains(log, task.Prompt.SHA256) || !strings.Contains(log, fmt.Sprintf(`"prompt_bytes":%d`, len(prompt))) {
		t.Errorf("log: %s", log)
	}
}
