package jobs_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestK06LinesOfALogAreCutAndMarked(t *testing.T) {
	long := strings.Repeat("word ", 20_000)
	for _, tt := range []struct {
		name, line, want string
		cut              bool
	}{
		{"a short line stays", "page 1 of 2", "page 1 of 2", false},
		{"control characters are written out", "\x1b[31mred\x00", `\x1b[31mred\x00`, false},
		{"a line that others have cut is marked", "password=hunt", "password=hunt … (line cut)", true},
		{"and loses the word that may be a part of a secret", "token hunt", "token … (line cut)", true},
		{"a long line ends with a whole word", long, long[:65509] + " … (line cut at 64 KiB)", false},
		{"one that was cut at the limit says where", long[:64<<10], long[:65509] + " … (line cut at 64 KiB)", true},
		{"one without words is cut anywhere", strings.Repeat("x", 1<<20), strings.Repeat("x", 64<<10-25) + " … (line cut at 64 KiB)", false},
		{"one that grows as it is made visible is cut", strings.Repeat("\x00", 20_000), strings.Repeat(`\x00`, 16377) + `\x0` + " … (line cut at 64 KiB)", false},
	} {
		got := jobs.LogLine(tt.line, tt.cut)
		if got != tt.want {
			t.Errorf("%s: %d bytes, ending %q; want %d, ending %q", tt.name, len(got), end(got), len(tt.want), end(tt.want))
		}
		if again := jobs.LogLine(got, false); again != got {
			t.Errorf("%s: not the same again: %q, was %q", tt.name, end(again), end(got))
		}
	}
}

func end(s string) string { return s[max(0, len(s)-60):] }

func TestK06LinesThatWereLeftOutAreCounted(t *testing.T) {
	for line, want := range map[string]int{
		jobs.LeftOut(1): 1, jobs.LeftOut(9900): 9900, "… 7 lines left out": 7,
		"": 1, "x": 1, "… 7 lines": 1, "… 7 lines left out!": 1, "… 9999999999999999 lines left out": 1,
	} {
		if got := jobs.LinesIn(line); got != want {
			t.Errorf("%q stands for %d lines, want %d", line, got, want)
		}
	}
}

func FuzzLogLine(f *testing.F) {
	f.Add("x \xff", 1, true)
	f.Add("日本\u202e ", 20_000, false)
	f.Fuzz(func(t *testing.T, s string, n int, cut bool) {
		line := jobs.LogLine(strings.Repeat(s, max(0, n)%(128<<10/(len(s)+1)+1)), cut)
		if len(line) > jobs.MaxLine || !utf8.ValidString(line) || jobs.Visible(line) != line {
			t.Errorf("%d bytes, ending %q", len(line), end(line))
		}
	})
}
