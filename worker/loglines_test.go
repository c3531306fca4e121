package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// logOf returns the texts of a job's log.
func (r *rig) logOf(id jobs.ID) []string {
	r.t.Helper()
	lines, err := r.status.Lines(context.Background(), id, status.LogQuery{Tail: 100_000})
	if err != nil {
		r.t.Fatal(err)
	}
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.Text)
	}
	return texts
}

func TestF26LogIsNotALineAPage(t *testing.T) {
	h := handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		for n := range 5000 { // in 50 s
			report(jobs.Progress{Done: n + 1, Total: 5000, Message: fmt.Sprintf("Page %d/5000 analyzing...", n+1)})
			if err := jobs.Sleep(ctx, 10*time.Millisecond); err != nil {
				return jobs.Result{}, err
			}
		}
		return jobs.Result{}, nil
	}}
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(time.Minute)
		got := r.logOf("j")
		if n := len(got); n < 20 || n > 30 {
			t.Errorf("%d lines of log for 5000 pages in 50 s, want one each 2 s: %q", n, got)
		}
		if got[1] != "Page 1/5000 analyzing..." || got[len(got)-2] != "Page 5000/5000 analyzing..." {
			t.Errorf("the log goes from %q to %q, want the first page and the last", got[1], got[len(got)-2])
		}
	}, "j")
}

// TestF26LinesOfAFailedReportAreKeptAndNoneDoubled takes the status store away twice
// while a job runs: first before it writes, then after it has written.
func TestF26LinesOfAFailedReportAreKeptAndNoneDoubled(t *testing.T) {
	inBubble(t, slowly(30, 3*time.Second), func(t *testing.T, r *rig) {
		r.start()
		r.after(10 * time.Second)
		r.status.cut(true)
		r.after(20 * time.Second)
		r.status.cut(false)
		r.after(10 * time.Second)
		r.status.lose(true)
		r.after(20 * time.Second)
		r.status.lose(false)
		r.after(time.Minute)
		want := []string{"attempt 1 started by w1"}
		for n := range 30 {
			want = append(want, fmt.Sprintf("Page %d/30 analyzing...", n+1))
		}
		want = append(want, "attempt 1 completed")
		if got := r.logOf("j"); !slices.Equal(got[1:], want[1:]) {
			t.Errorf("the log is %q, want %q", got, want)
		}
	}, "j")
}

// slowly returns a handler of so many pages that take so long each.
func slowly(pages int, each time.Duration) handler {
	return handler{run: func(ctx context.Context, _ jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		for n := range pages {
			if err := jobs.Sleep(ctx, each); err != nil {
				return jobs.Result{}, err
			}
			report(jobs.Progress{Done: n + 1, Total: pages, Message: fmt.Sprintf("Page %d/%d analyzing...", n+1, pages)})
		}
		return jobs.Result{}, nil
	}}
}

// logger is a handler whose jobs write a log of their own.
type logger func(ctx context.Context, a jobs.Attempt) error

func (l logger) RunAttempt(ctx context.Context, a jobs.Attempt) (jobs.Result, error) {
	return jobs.Result{}, l(ctx, a)
}

func (l logger) Run(context.Context, jobs.Job, func(jobs.Progress)) (jobs.Result, error) {
	panic("not called")
}

func (l logger) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

// lines logs "line 1" to "line n", so many a second.
func lines(ctx context.Context, a jobs.Attempt, n, rate int) error {
	for i := range n {
		a.Log(fmt.Sprintf("line %d", i+1))
		if i%rate == rate-1 {
			if err := jobs.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLines checks a log of lines with marks for those that were left out: none is
// missing, doubled or out of order. It returns how many lines were left out, and the
// numbers of the others.
func checkLines(t *testing.T, log []string, n int) (out int, kept []int) {
	t.Helper()
	next := 1
	for _, line := range log {
		var i int
		if _, err := fmt.Sscanf(line, "line %d", &i); err == nil {
			if i != next {
				t.Errorf("line %d, want line %d", i, next)
			}
			kept = append(kept, i)
			next = i + 1
		} else if left := jobs.LinesIn(line); left > 1 || line == jobs.LeftOut(1) {
			out += left
			next += left
		} else {
			t.Errorf("line %q", line)
		}
	}
	if next != n+1 {
		t.Errorf("the log is of %d lines, want %d", next-1, n)
	}
	return out, kept
}

func TestK06LogOfAJobHasEveryLineUnlessTheyComeTooFast(t *testing.T) {
	h := logger(func(ctx context.Context, a jobs.Attempt) error { return lines(ctx, a, 3000, 50) })
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(2 * time.Minute)
		got := r.logOf("j")
		if out, _ := checkLines(t, got[1:len(got)-1], 3000); out != 0 {
			t.Errorf("%d lines were left out at 50 lines a second", out)
		}
	}, "j")
}

// TestK06LinesThatComeTooFastAreCounted writes 10 000 lines a second: the first are kept,
// then the newest of each second, and the last.
func TestK06LinesThatComeTooFastAreCounted(t *testing.T) {
	const n = 100_000
	h := logger(func(ctx context.Context, a jobs.Attempt) error {
		for i := range n {
			began := time.Now()
			a.Log(fmt.Sprintf("line %d", i+1))
			if time.Since(began) != 0 {
				t.Error("log has waited")
			}
			if err := jobs.Sleep(ctx, 100*time.Microsecond); err != nil {
				return err
			}
		}
		return nil
	})
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(15 * time.Second)
		got := r.logOf("j")
		out, kept := checkLines(t, got[1:len(got)-1], n)
		if len(kept) < 1200 || len(kept) > 1800 || out+len(kept) != n {
			t.Errorf("%d lines kept and %d left out, want about 100 kept each second, and the first and last", len(kept), out)
		}
		for i := range firstLines {
			if kept[i] != i+1 {
				t.Fatalf("line %d of the log is line %d, want the first %d whole", i+1, kept[i], firstLines)
			}
		}
		for i := range 100 {
			if want := n - i; kept[len(kept)-1-i] != want {
				t.Fatalf("line %d before the end is line %d, want %d", i, kept[len(kept)-1-i], want)
			}
		}
		marks := 0
		for i, line := range got[1 : len(got)-1] {
			if jobs.LinesIn(line) > 1 {
				marks++
				if i < firstLines {
					t.Errorf("line %d of the log is %q, among the first", i, line)
				}
			}
		}
		if marks > 12 {
			t.Errorf("%d marks in 10 s, want one a second at most", marks)
		}
		if r.status.calls > 14 {
			t.Errorf("%d reports in 10 s, want one a second: lines alone make no reports", r.status.calls)
		}
	}, "j")
}

// TestK06ProgressDoesNotBringMoreLines reports progress ten times a second beside lines
// that come too fast.
func TestK06ProgressDoesNotBringMoreLines(t *testing.T) {
	h := logger(func(ctx context.Context, a jobs.Attempt) error {
		for i := range 10_000 { // for 10 s
			a.Log(fmt.Sprintf("line %d", i+1))
			a.Report(jobs.Progress{Done: i, Total: 10_000})
			if err := jobs.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(15 * time.Second)
		got := r.logOf("j")
		checkLines(t, got[1:len(got)-1], 10_000)
		marks := 0
		for _, line := range got {
			if jobs.LinesIn(line) > 1 {
				marks++
			}
		}
		if marks > 12 || r.status.reports < 90 {
			t.Errorf("%d marks beside %d reports of progress in 10 s, want one mark a second", marks, r.status.reports)
		}
	}, "j")
}

func TestK06LineThatStandsForOthersIsCountedAsThose(t *testing.T) {
	h := logger(func(_ context.Context, a jobs.Attempt) error {
		for i := range 1000 {
			a.Log(fmt.Sprintf("line %d", i+1))
		}
		a.Log(jobs.LeftOut(9000))
		for i := range 1000 {
			a.Log(fmt.Sprintf("line %d", i+10_001))
		}
		return nil
	})
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(5 * time.Second)
		got := r.logOf("j")
		checkLines(t, got[1:len(got)-1], 11_000)
	}, "j")
}

// TestK06LongLinesAreFewer writes lines of 2 KiB, which is what limits them.
func TestK06LongLinesAreFewer(t *testing.T) {
	long := strings.Repeat("x", 2<<10)
	h := logger(func(ctx context.Context, a jobs.Attempt) error {
		for i := range 20_000 { // for 20 s
			a.Log(fmt.Sprintf("line %d %s", i+1, long))
			if err := jobs.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		err := jobs.Sleep(ctx, time.Second/3) // not in the report of a whole second, with lines
		a.Log(strings.Repeat("y", 1<<20))
		return err
	})
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(30 * time.Second)
		got := r.logOf("j")
		last := got[len(got)-2]
		if len(last) != jobs.MaxLine || !strings.HasSuffix(last, "y … (line cut at 64 KiB)") {
			t.Errorf("the last line has %d bytes and ends with %q, want it cut at 64 KiB", len(last), last[len(last)-40:])
		}
		_, kept := checkLines(t, got[1:len(got)-2], 20_000)
		if len(kept) < 20*7 || len(kept) > 31+21*8+48 || kept[len(kept)-1] != 20_000 {
			t.Errorf("%d lines kept, want 31 first ones, 8 a second and up to 48 last", len(kept))
		}
	}, "j")
}

// TestK06LinesAreKeptWhileTheStoreIsAway takes the status store away for 20 s of a job that
// logs, first slowly, then fast.
func TestK06LinesAreKeptWhileTheStoreIsAway(t *testing.T) {
	for _, tt := range []struct {
		name string
		rate int
		most int // lines left out
	}{{"slowly", 10, 0}, {"fast", 1000, 60_000}} {
		t.Run(tt.name, func(t *testing.T) {
			n := 60 * tt.rate
			h := logger(func(ctx context.Context, a jobs.Attempt) error { return lines(ctx, a, n, tt.rate) })
			inBubble(t, h, func(t *testing.T, r *rig) {
				r.start()
				r.after(9500 * time.Millisecond)
				r.status.cut(true)
				r.after(20 * time.Second)
				r.status.cut(false)
				r.after(5 * time.Second)
				r.status.lose(true) // written, but the reply does not come
				r.after(3 * time.Second)
				r.status.lose(false)
				r.after(time.Minute)
				got := r.logOf("j")
				if out, _ := checkLines(t, got[1:len(got)-1], n); out > tt.most {
					t.Errorf("%d lines were left out", out)
				}
				if reports := r.status.most; reports > jobs.MaxLines {
					t.Errorf("a report had %d lines", reports)
				}
			}, "j")
		})
	}
}

func TestK06LastLinesAreWrittenWhenTheWorkerDrains(t *testing.T) {
	h := logger(func(ctx context.Context, a jobs.Attempt) error {
		a.Log("line 1")
		err := jobs.Sleep(ctx, time.Hour)
		for i := range 3 {
			a.Log(fmt.Sprintf("line %d", i+2))
		}
		return err
	})
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(3*time.Second + 100*time.Millisecond)
		r.stops(10 * time.Second)
		got := r.logOf("j")
		want := []string{"attempt 1 started by ", "line 1", "line 2", "line 3", "line 4", "attempt 1 handed back: Worker stopped; waiting for another worker"}
		if !slices.Equal(got, want) {
			t.Errorf("the log is %q, want %q", got, want)
		}
	}, "j")
}

// TestK06DrainDoesNotWaitForTheLog stops a worker whose status store hangs: its last lines
// must not keep the job from being handed back.
func TestK06DrainDoesNotWaitForTheLog(t *testing.T) {
	h := logger(func(ctx context.Context, a jobs.Attempt) error {
		err := jobs.Sleep(ctx, time.Hour)
		a.Log("line 1")
		return err
	})
	inBubble(t, h, func(_ *testing.T, r *rig) {
		r.start()
		r.after(3 * time.Second)
		r.status.freeze(true)
		r.stops(8*time.Second + 2100*time.Millisecond)
		r.wantTold("nack j")
		r.status.freeze(false)
	}, "j")
}

func TestK06CanceledJobHasItsLastLines(t *testing.T) {
	h := logger(func(ctx context.Context, a jobs.Attempt) error {
		a.Log("line 1")
		err := jobs.Sleep(ctx, time.Hour)
		a.Log("line 2")
		time.Sleep(3 * time.Second) // reports go on, and are answered the same
		a.Log("line 3")
		return err
	})
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(3 * time.Second)
		if _, err := r.status.Cancel(t.Context(), "canceled"); err != nil {
			t.Fatal(err)
		}
		r.after(20 * time.Second)
		got := r.logOf("canceled")
		if out, kept := checkLines(t, got[1:len(got)-1], 3); out != 0 || len(kept) != 3 {
			t.Errorf("the log is %q, want three lines", got)
		}
	}, "canceled")
}

func TestK06ProgressThatTheLogHasIsNoLine(t *testing.T) {
	h := logger(func(ctx context.Context, a jobs.Attempt) error {
		a.Log("page 1 of 2")
		a.Report(jobs.Progress{Done: 1, Total: 2, Message: "page 1 of 2", Logged: true})
		if err := jobs.Sleep(ctx, 5*time.Second); err != nil {
			return err
		}
		a.Report(jobs.Progress{Done: 2, Total: 2, Message: "half a page more"})
		return nil
	})
	inBubble(t, h, func(t *testing.T, r *rig) {
		r.start()
		r.after(3 * time.Second)
		r.wantStatus("j", "processing 50% page 1 of 2")
		r.after(5 * time.Second)
		got, want := r.logOf("j"), []string{"attempt 1 started by ", "page 1 of 2", "half a page more", "attempt 1 completed"}
		if !slices.Equal(got, want) {
			t.Errorf("the log is %q, want %q", got, want)
		}
	}, "j")
}

// FuzzLogLines takes lines in any way, with reports that fail and some that are written
// although their reply is lost: in the log no line is missing, doubled or out of order.
func FuzzLogLines(f *testing.F) {
	f.Add([]byte{10, 250, 255, 0, 200, 201, 255, 255, 1})
	f.Add([]byte{255, 254, 253, 252, 255, 254, 253})
	f.Fuzz(func(t *testing.T, steps []byte) {
		synctest.Test(t, func(t *testing.T) {
			var l logLines
			var log []string
			written := func(lines jobs.Lines) {
				known := len(log) - lines.Before
				if known < 0 || known > len(lines.Text) && len(lines.Text) > 0 {
					t.Fatalf("lines %d to %d come after %d", lines.Before, lines.Before+len(lines.Text), len(log))
				}
				log = append(log, lines.Text[min(known, len(lines.Text)):]...)
			}
			n := 0
			for _, step := range steps {
				switch step % 8 {
				case 0: // a report
					written(l.take(false))
					l.written()
				case 1: // one that fails
					l.take(false)
				case 2: // one whose reply is lost
					written(l.take(false))
				case 3:
					time.Sleep(time.Duration(step) * 10 * time.Millisecond)
				default:
					for range int(step) * int(step) / 40 {
						n++
						l.add(fmt.Sprintf("line %d %s", n, strings.Repeat("x", int(step))))
					}
				}
				waiting := 0
				for _, line := range slices.Concat(l.sent, l.first, l.rest) {
					waiting += len(line)
				}
				if text := l.take(false).Text; len(text) > jobs.MaxLines || waiting > 256<<10 {
					t.Fatalf("a report of %d lines, %d bytes wait", len(text), waiting)
				}
			}
			for range 2 {
				written(l.take(true))
				l.written()
			}
			checkLines(t, log, n)
		})
	})
}
