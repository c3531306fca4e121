package workertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

var logTests = map[string]func(*testing.T, store){
	"lines that are sent twice are in the log once":                linesOnce,
	"lines of a stale attempt are not in the log":                  staleLines,
	"lines of a canceled job are in the log":                       canceledLines,
	"a long log keeps its first and newest lines, and counts them": longLog,
}

// ours begins a line of the suite: others are the store's own.
const ours = "line "

// wantLog compares the lines of the suite and the marks that are in the log of job "a".
func (s store) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if got := s.log(t); !slices.Equal(got, want) {
		t.Errorf("the log is %q, want %q", got, want)
	}
}

func (s store) log(t *testing.T) []string {
	t.Helper()
	all, err := s.Store.(Logger).Log(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(line string) bool { return !strings.HasPrefix(line, ours) && jobs.LinesIn(line) == 1 })
}

func (s store) lines(t *testing.T, c jobs.Claim, before int, lines ...string) error {
	t.Helper()
	return s.Report(within(t), c, forever, nil, jobs.Lines{Before: before, Text: lines})
}

func linesOnce(t *testing.T, s store) {
	c := s.claim(t, forever, jobs.Granted)
	report := func(before int, lines ...string) {
		t.Helper()
		if err := s.lines(t, c, before, lines...); err != nil {
			t.Fatal(err)
		}
	}
	report(0, "line 1", "line 2")
	report(0, "line 1", "line 2")           // the reply was lost
	report(0, "line 1", "line 2", "line 3") // and more has come meanwhile
	report(2, "line 3", "line 4")
	report(1, "line 2")
	report(4)
	s.wantLog(t, "line 1", "line 2", "line 3", "line 4")
	if err := s.Release(within(t), c, "again"); err != nil {
		t.Fatal(err)
	}
	c = s.claim(t, forever, jobs.Granted)
	report(0, "line 1") // of another attempt
	s.wantLog(t, "line 1", "line 2", "line 3", "line 4", "line 1")
}

func staleLines(t *testing.T, s store) {
	stale := s.claim(t, instant, jobs.Granted)
	owner := s.claim(t, forever, jobs.Granted)
	wantLost(t, "stale report", s.lines(t, stale, 0, "line 1"))
	if err := s.lines(t, owner, 0, "line 2"); err != nil {
		t.Errorf("report of the owner: %v", err)
	}
	s.wantLog(t, "line 2")
}

func canceledLines(t *testing.T, s store) {
	c := s.claim(t, forever, jobs.Granted)
	s.cancel(t, jobs.Running)
	_ = s.lines(t, c, 0, "line 1") // it says that the job is canceled
	_ = s.lines(t, c, 1, "line 2")
	s.finish(t, c, jobs.Outcome{State: jobs.Canceled}, jobs.Canceled)
	s.wantLog(t, "line 1", "line 2")
}

// longLog writes 8 MB. Some of its lines are marks of a worker, for seven lines each.
func longLog(t *testing.T, s store) {
	const reports, each = 80, 100
	c := s.claim(t, forever, jobs.Granted)
	var written []string
	for range reports {
		lines := make([]string, each)
		for i := range lines {
			lines[i] = fmt.Sprintf(ours+"%d %s", len(written)+i, strings.Repeat("x", 1000))
			if i == each/2 {
				lines[i] = jobs.LeftOut(7)
			}
		}
		if err := s.lines(t, c, len(written), lines...); err != nil {
			t.Fatal(err)
		}
		written = append(written, lines...)
	}
	got := s.log(t)
	head := 0
	for head < len(got) && got[head] == written[head] {
		head++
	}
	tail := 0
	for tail < len(got) && got[len(got)-1-tail] == written[len(written)-1-tail] {
		tail++
	}
	if head < 200 || tail < 1000 || head+1+tail != len(got) {
		t.Fatalf("of %d lines the first %d and the last %d are there, and %d in all; want one mark between", len(written), head, tail, len(got))
	}
	out := 0
	for _, line := range written[head : len(written)-tail] {
		out += jobs.LinesIn(line)
	}
	if got[head] != jobs.LeftOut(out) {
		t.Errorf("the mark is %q, want %q", got[head], jobs.LeftOut(out))
	}
	bytes := 0
	for _, line := range got {
		bytes += len(line)
	}
	if bytes > 5_000_000 {
		t.Errorf("%d bytes of log are kept", bytes)
	}
}
