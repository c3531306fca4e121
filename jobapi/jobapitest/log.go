package jobapitest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// most is a tail longer than any log of the suite.
const most = 5000

var posPattern = regexp.MustCompile(`^[0-9-]{1,40}$`)

func (r Rig) log(t *testing.T, id string, q jobapi.LogQuery) []jobapi.Line {
	t.Helper()
	log, err := r.Jobs.Log(t.Context(), id, q)
	if err != nil || log.Dropped != 0 {
		t.Fatalf("log of %s, %+v: %d dropped, %v", id, q, log.Dropped, err)
	}
	return log.Lines
}

func testLog(t *testing.T, r Rig) {
	id := r.Submit("text")
	r.log(t, id, jobapi.LogQuery{Tail: 1}) // it may be empty
	r.Start(id)
	for i := range 4 {
		r.Report(id, fmt.Sprintf("report %d\nits second \xff line", i))
	}
	all := r.log(t, id, jobapi.LogQuery{Tail: most})
	if len(all) == 0 {
		t.Fatal("the log is empty")
	}
	want := func(q jobapi.LogQuery, lines []jobapi.Line) {
		t.Helper()
		got := r.log(t, id, q)
		same := func(a, b jobapi.Line) bool { return a.Pos == b.Pos && a.Text == b.Text && a.Time.Equal(b.Time) }
		if !slices.EqualFunc(got, lines, same) {
			t.Errorf("%+v of %+v:\n got %+v\nwant %+v", q, all, got, lines)
		}
	}
	for i, line := range all {
		if strings.ContainsAny(line.Text, "\r\n") || !utf8.ValidString(line.Text) || line.Time.IsZero() {
			t.Errorf("line %+v", line)
		}
		n := i + 1
		since := slices.DeleteFunc(slices.Clone(all), func(l jobapi.Line) bool { return l.Time.Before(line.Time) })
		want(jobapi.LogQuery{Tail: n}, all[len(all)-n:])
		want(jobapi.LogQuery{Tail: n, After: jobapi.LogStart}, all[:n])
		want(jobapi.LogQuery{Tail: most, After: line.Pos}, all[n:])
		want(jobapi.LogQuery{Tail: 1, After: line.Pos}, all[n:min(n+1, len(all))])
		want(jobapi.LogQuery{Tail: most, Since: line.Time}, since)
		want(jobapi.LogQuery{Tail: 1, Since: line.Time}, since[len(since)-1:])
		want(jobapi.LogQuery{Tail: 1, Since: line.Time, After: jobapi.LogStart}, since[:1])
	}
	want(jobapi.LogQuery{Tail: most, Since: all[len(all)-1].Time.Add(24 * time.Hour)}, nil)
}

// testPositions follows a log: each line comes once, and a position keeps its text.
func testPositions(t *testing.T, r Rig) {
	texts := map[string]string{}
	id, after := r.Submit("text"), jobapi.LogStart
	follow := func(what, last string) {
		t.Helper()
		lines := r.log(t, id, jobapi.LogQuery{Tail: most, After: after})
		for _, l := range lines {
			if old, ok := texts[l.Pos]; ok || l.Pos == jobapi.LogStart || !posPattern.MatchString(l.Pos) {
				t.Errorf("%s: line %+v; its position had %q", what, l, old)
			}
			texts[l.Pos], after = l.Text, l.Pos
		}
		if last != "" && (len(lines) == 0 || !strings.Contains(lines[len(lines)-1].Text, last)) {
			t.Errorf("%s: new lines %+v, want %q last", what, lines, last)
		}
		if again := r.log(t, id, jobapi.LogQuery{Tail: most, After: after}); len(again) != 0 {
			t.Errorf("%s: after the last line there is %+v", what, again)
		}
		for _, l := range r.log(t, id, jobapi.LogQuery{Tail: most}) {
			if old, ok := texts[l.Pos]; ok && old != l.Text {
				t.Errorf("%s: position %s has %q, had %q", what, l.Pos, l.Text, old)
			}
		}
	}
	follow("submitted", "")
	r.Start(id)
	follow("started", "")
	for i := range 3 {
		text := fmt.Sprintf("report %d", i)
		r.Report(id, text)
		follow(text, text)
	}
	r.End(id, jobs.Failed, "no luck")
	follow("failed", "no luck")
}
