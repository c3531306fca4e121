package output_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestR44FormsOfProgressAreFoundByThePatternsOfTheDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/kinds.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, pattern string
		lines, want   []string // progress after each line, a second apart; empty for no news
	}{
		{
			"a fraction", `^progress: ([\d.]+)`,
			[]string{"progress: 0.55", "loss: 0.7", "progress: 0.5", "progress: 1.0"},
			[]string{"5500/10000", "", "5500/10000", "10000/10000"},
		},
		{
			"a percentage", `([\d.]+)%`,
			[]string{"55%", "step 56.5% of it", " 60%|######   | 3/5\r", "rendered", "12%", "140%"},
			[]string{"5500/10000", "5650/10000", "6000/10000", "", "6000/10000", "10000/10000"},
		},
		{
			"how many of all", `(\d+)/(\d+)`,
			[]string{"12/40", "frame 13/40 done", "frame 3/0", "7/40", "41/40"},
			[]string{"12/40", "13/40", "", "13/40", "40/40"},
		},
		{
			"JSON", `"progress": *([\d.]+) *[,}]`,
			[]string{`{"progress": 0.55}`, `{"step":3,"progress":0.6,"loss":0.1}`, `{"progress": 7e-05}`, `{"progress": null}`, `{"progress": 0.1}`, `{"progress": 1.0}`},
			[]string{"5500/10000", "6000/10000", "", "", "6000/10000", "10000/10000"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(string(doc), "`progress = '"+tt.pattern+"'`") {
				t.Errorf("docs/kinds.md does not have the pattern %s", tt.pattern)
			}
			inBubble(t, func(t *testing.T, r *rig) {
				r.Pattern = regexp.MustCompile(tt.pattern)
				seen := 0
				for i, line := range tt.lines {
					r.out(line)
					synctest.Wait()
					got := ""
					if _, progress := r.seen(); len(progress) > seen {
						seen, got = len(progress), strings.Fields(r.newest())[1]
					}
					if got != tt.want[i] {
						t.Errorf("after %q progress is %q, want %q", line, got, tt.want[i])
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

func TestR44WithoutAPatternOnlyCommandsAreProgress(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		r.out("progress: 0.55", "55%", "12/40", `{"progress": 0.55}`)
		r.wantProgress()
		r.out("::progress 12/40 frames")
		r.wantProgress("0: 12/40 frames")
	})
}
