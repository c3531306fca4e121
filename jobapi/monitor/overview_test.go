package monitor_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// codes returns the codes and kinds of warnings, in their order.
func codes(o jobapi.Overview) (all []string) {
	for _, w := range o.Warnings {
		all = append(all, strings.TrimSuffix(w.Code+" "+w.Scope+w.Kind+w.Worker, " "))
	}
	return all
}

func TestD01TheOverviewCountsJobsWorkersAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, utils := newFleet(), newPlain()
		f.dead = 3
		f.employ(
			jobapi.Worker{ID: "w1", Name: "one", Kinds: []string{"pdf"}, Slots: 4, Jobs: 2, State: "working"},
			jobapi.Worker{ID: "w2", Name: "two", Kinds: []string{"pdf", "ocr"}, Slots: 2, State: "idle"},
			jobapi.Worker{ID: "w3", Name: "three", Kinds: []string{"pdf"}, Slots: 2, Jobs: 1, State: "draining"},
			jobapi.Worker{ID: "w4", Name: "four", Kinds: []string{"pdf"}, Slots: 2, State: "unready"},
		)
		g := serve(t, of("fleet", f, "utils", utils))
		synctest.Wait() // the first sample has no jobs
		for i := range 10 {
			id := fmt.Sprintf("job_%02d", i)
			f.put(id, "fleet.pdf", jobs.Queued)
			time.Sleep(time.Second)
			f.put(id, "fleet.pdf", jobs.Running)
			time.Sleep(time.Duration(i+1) * time.Second)
			f.put(id, "fleet.pdf", []jobs.State{jobs.Succeeded, jobs.Failed}[i%2])
		}
		f.put("waits", "fleet.pdf", jobs.Queued)
		f.put("runs", "fleet.ocr", jobs.Running)
		o := g.overview(t)
		s := o.Scopes[0]
		if d := cmp.Diff(map[string]int{"queued": 1, "running": 1, "succeeded": 5, "failed": 5, "canceled": 0}, s.States); d != "" || *s.DeadLetters != 3 {
			t.Errorf("states: %s, dead letters %d", d, *s.DeadLetters)
		}
		if len(s.Kinds) != 2 || s.Kinds[0].Kind != "ocr" || s.Kinds[1].Kind != "pdf" {
			t.Fatalf("kinds: %+v", s.Kinds)
		}
		pdf := s.Kinds[1]
		if pdf.Queued != 1 || pdf.Running != 0 || pdf.Workers != 4 || pdf.Slots != 8 || pdf.Oldest.IsZero() ||
			*pdf.Wait != (jobapi.Quantiles{P50: 1000, P95: 1000, P99: 1000, N: 10}) || *pdf.Run != (jobapi.Quantiles{P50: 5000, P95: 10_000, P99: 10_000, N: 10}) {
			t.Errorf("pdf: %+v, waits %+v, runs %+v", pdf, pdf.Wait, pdf.Run)
		}
		if want := (jobapi.WorkerCounts{Working: 1, Idle: 1, Draining: 1, Unready: 1, Slots: 8, InHand: 2}); o.Workers != want {
			t.Errorf("workers: %+v, want %+v", o.Workers, want)
		}
		if len(o.Errors) != 1 || o.Errors[0].Count != 5 || o.Errors[0].JobID != "job_09" || o.Errors[0].Scope != "fleet" || o.Errors[0].Code != "FAILED" || !strings.Contains(o.Errors[0].Message, "job_09") {
			t.Errorf("errors: %+v", o.Errors)
		}
		if len(o.Warnings) != 0 {
			t.Errorf("warnings: %+v", o.Warnings)
		}
		var in, ended, dayIn int64
		for _, p := range s.Recent {
			in, ended = in+p.In, ended+p.Succeeded+p.Failed
		}
		for _, p := range s.Day {
			dayIn += p.In
		}
		if len(s.Recent) != 6 || in != 10 || ended != 9 || len(s.Day) != 25 || dayIn != 12 {
			t.Errorf("%d points, %d came and %d ended; %d hours, %d came", len(s.Recent), in, ended, len(s.Day), dayIn)
		}
		if u := o.Scopes[1]; u.Name != "utils" || u.Unavailable != "" || len(u.States) != 0 || u.DeadLetters != nil {
			t.Errorf("utils: %+v", u)
		}
		g.stop()
	})
}

func TestD01ThingsToLookAtAreWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		g := serve(t, of("fleet", f))
		f.put("a", "fleet.pdf", jobs.Queued)
		seen := jobapi.At(time.Now().Add(-time.Minute))
		one := func(state string, kinds ...string) jobapi.Worker {
			return jobapi.Worker{ID: "w-" + state, Name: state, Host: "host1", Kinds: kinds, Slots: 1, State: state, Seen: seen}
		}
		for _, tt := range []struct {
			name    string
			workers []jobapi.Worker
			pause   bool
			want    []string
		}{
			{"no worker", nil, false, []string{"NO_WORKER fleetpdf"}},
			{"one of another kind", []jobapi.Worker{one("idle", "ocr")}, false, []string{"NO_WORKER fleetpdf"}},
			{"one that takes it", []jobapi.Worker{one("working", "pdf")}, false, nil},
			{"one that takes all", []jobapi.Worker{one("working")}, false, nil},
			{"only a silent one", []jobapi.Worker{one("silent", "pdf")}, false, []string{"NO_WORKER fleetpdf", "SILENT_WORKER fleetw-silent"}},
			{"all drain", []jobapi.Worker{one("draining", "pdf")}, false, []string{"DRAINING fleet"}},
			{"all of its kind drain", []jobapi.Worker{one("draining", "pdf"), one("idle", "ocr")}, false, []string{"DRAINING fleetpdf"}},
			{"paused", nil, true, []string{"PAUSED fleetpdf"}},
		} {
			f.employ(tt.workers...)
			what := "resume"
			if tt.pause {
				what = "pause"
			}
			if status, body := g.ask(t, http.MethodPost, "fleet/kinds/pdf/"+what); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			o := g.overview(t) // at once
			if d := cmp.Diff(tt.want, codes(o)); d != "" {
				t.Errorf("%s: %s", tt.name, d)
			}
			for _, w := range o.Warnings {
				if w.Code == "SILENT_WORKER" && !w.Since.Equal(seen.Time) || w.Message == "" {
					t.Errorf("%s: %+v", tt.name, w)
				}
			}
		}
		_, body := g.ask(t, http.MethodGet, "fleet/kinds")
		if !strings.Contains(body, `"name":"pdf"`) || !strings.Contains(body, `"queued":1`) || strings.Contains(body, `"pausedSince":null`) {
			t.Errorf("kinds: %s", body)
		}
		g.stop()
	})
}

func TestD01AStoreThatIsAwayLeavesTheRestRight(t *testing.T) {
	for name, spoil := range map[string]func(*fleet){
		"it refuses":   func(f *fleet) { f.set(fmt.Errorf("dial 10.0.0.1:6379: %w", jobs.ErrUnavailable), false) },
		"it hangs":     func(f *fleet) { f.set(nil, true) },
		"it is broken": func(f *fleet) { f.set(errors.New("WRONGTYPE secret insides"), false) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				away, other := newFleet(), newFleet()
				g := serve(t, of("fleet", away, "zpe", other))
				other.put("z", "zpe.calc", jobs.Running)
				for range 3 { // before, at the beginning and later
					begun := time.Now()
					o := g.overview(t)
					if took := time.Since(begun); took > 5*time.Second {
						t.Errorf("an answer took %v", took)
					}
					if o.Scopes[1].Unavailable != "" || o.Scopes[1].States["running"] != 1 {
						t.Errorf("the other scope: %+v", o.Scopes[1])
					}
					spoil(away)
					time.Sleep(2 * time.Second)
				}
				time.Sleep(20 * time.Second)
				status, body := g.ask(t, http.MethodGet, "overview")
				if status != 200 || strings.Count(body, `"unavailable"`) != 1 || !strings.Contains(body, `"code":"UNAVAILABLE"`) || strings.Contains(body, "10.0.0.1") || strings.Contains(body, "secret") {
					t.Errorf("%d %s", status, body)
				}
				if status, body := g.ask(t, http.MethodGet, "fleet/kinds"); status != 503 && status != 500 {
					t.Errorf("kinds: %d %s", status, body)
				}
				if n := strings.Count(g.logged.String(), "cannot look at the jobs"); n != 1 {
					t.Errorf("it was logged %d times: %s", n, g.logged.String())
				}
				away.set(nil, false)
				time.Sleep(10 * time.Second)
				if o := g.overview(t); o.Scopes[0].Unavailable != "" {
					t.Errorf("when it is back: %+v", o.Scopes[0])
				}
				g.stop()
			})
		})
	}
}

func TestD01AChangeIsInTheOverviewWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, quiet := newFleet(), newPlain()
		g := serve(t, of("fleet", f, "grid", quiet))
		for i := range 5 {
			g.overview(t)
			time.Sleep(3 * time.Second)
			f.put(fmt.Sprint("job_", i), "fleet.pdf", jobs.Failed)
			time.Sleep(1100 * time.Millisecond)
			if o := g.overview(t); o.Scopes[0].States["failed"] != i+1 {
				t.Errorf("after change %d: %v", i, o.Scopes[0].States)
			}
		}
		time.Sleep(6 * time.Second)
		g.overview(t)
		time.Sleep(6 * time.Second)
		if o := g.overview(t); len(o.Errors) != 1 || o.Errors[0].Count != 5 {
			t.Errorf("errors: %+v", o.Errors)
		}
		f.took("Get", "List")
		for range 100 { // the changed jobs are read once
			g.overview(t)
			time.Sleep(300 * time.Millisecond)
		}
		if n := f.took("Get", "List"); n != 0 {
			t.Errorf("nothing has changed, and jobs were read %d times", n)
		}
		g.stop()
	})
}

func TestD01RatesAreKeptForFiveMinutesAndOverGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		g := serve(t, of("fleet", f))
		for i := range 600 { // one a second
			switch i {
			case 400:
				f.set(jobs.ErrUnavailable, false)
			case 440:
				f.set(nil, false)
			}
			f.put(fmt.Sprint("job_", i), "fleet.pdf", jobs.Queued)
			time.Sleep(time.Second)
		}
		s := g.overview(t).Scopes[0]
		if len(s.Recent) != 30 {
			t.Fatalf("%d points", len(s.Recent))
		}
		for i, p := range s.Recent {
			if p.In < 9 || p.In > 11 || i > 0 && p.At.Sub(s.Recent[i-1].At.Time) != 10*time.Second {
				t.Errorf("point %d: %+v", i, p)
			}
		}
		g.stop()
	})
}
