package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

// logOf returns the log of a job as "N TEXT".
func (r *rig) logOf(id jobs.ID) (lines []string) {
	r.Helper()
	for _, l := range must(r.Lines(r.ctx(), id))(r) {
		lines = append(lines, fmt.Sprintf("%d %s", l.N, l.Text))
	}
	return lines
}

// write adds lines to the log of one job.
func (r *rig) write(c queue.Caller, id jobs.ID, lease string, before int, lines ...string) error {
	r.Helper()
	return r.Write(r.ctx(), c, []queue.LogOf{{Job: id, Lease: lease, Log: queue.Log{Before: before, Lines: lines}}})[0]
}

// wrote writes lines under a lease on a job of kind thumbnail.
func (r *rig) wrote(g queue.Grant, before int, lines ...string) {
	r.Helper()
	if err := r.write(as("thumbnail"), g.Job, g.LeaseID, before, lines...); err != nil {
		r.Fatal(err)
	}
}

func TestK17LinesOfAJobAreInItsLogOnce(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.submitKind("thumbnail", "t1")
		lease := func() func(before int, lines ...string) {
			r.Helper()
			g := r.leaseOf("thumbnail")
			return func(before int, lines ...string) {
				r.Helper()
				r.wrote(g, before, lines...)
			}
		}
		write := lease()
		write(0, "a", "b c")
		write(0, "a", "b c") // the answer was lost
		write(2)             // no lines
		write(1, "b c", "d") // this cannot be; no line is there twice all the same
		want := []string{"1 a", "2 b c", "3 d"}
		if got := r.logOf("t1"); !slices.Equal(got, want) {
			r.Errorf("the log is %q, want %q", got, want)
		}
		// Another run counts its lines from the beginning.
		r.endRun("t1")
		lease()(0, "a", "x\x00y")
		if got, want := r.logOf("t1"), append(want, "4 a", "5 x\x00y"); !slices.Equal(got, want) {
			r.Errorf("the log is %q, want %q", got, want)
		}
		r.sound()
	})
}

// endRun has the run of a job of kind thumbnail end, so that the next can begin.
func (r *rig) endRun(id jobs.ID) {
	r.Helper()
	lease := r.do("HGET", "zpe:lease:"+string(id), "lease_id")
	must(r.Queue.Fail(r.ctx(), as("thumbnail"), id, lease, queue.Failure{Code: "WORKER_SHUTDOWN", RetryPolicy: queue.ReturnUncounted}))(r)
}

func TestK17ALogIsBounded(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.submitKind("thumbnail", "t1", "t2")
		g := r.leaseOf("thumbnail")
		const n = 1000
		for i := range n / 100 {
			var lines []string
			for k := range 100 {
				lines = append(lines, fmt.Sprint(i*100+k+1))
			}
			r.wrote(g, i*100, lines...)
		}
		log := r.logOf("t1")
		if len(log) != 300 || log[0] != "701 701" || log[299] != "1000 1000" {
			r.Errorf("the log has %d lines, %q to %q; want the newest 300", len(log), log[0], log[len(log)-1])
		}
		if ttl := must(r.rdb.TTL(r.ctx(), "zpe:log:t1").Result())(r); ttl > 24*time.Hour || ttl < 23*time.Hour {
			r.Errorf("it is kept for %s, want a day", ttl)
		}
		// Whatever is at its key, there is no error, and it stays.
		other := r.leaseOf("thumbnail")
		r.do("SET", "zpe:log:t2", "x")
		r.wrote(other, 0, "a")
		r.do("DEL", "zpe:log:t2")
		r.do("RPUSH", "zpe:log:t2", "no line")
		r.wrote(other, 0, "a")
		if got := r.logOf("t2"); !slices.Equal(got, []string{"1 a"}) {
			r.Errorf("the log is %q", got)
		}
	})
}

func TestK17LinesOfALogAreInOrderThoughAClockIsSetBack(t *testing.T) {
	r := newRig(t)
	r.submitKind("thumbnail", "t1")
	g := r.leaseOf("thumbnail")
	now := r.Now()
	for i, at := range []time.Duration{0, time.Minute, -time.Hour, 2 * time.Minute} {
		r.Now = func() time.Time { return now.Add(at) }
		r.wrote(g, i, strings.Repeat("x", i))
	}
	var at []time.Duration
	for _, l := range must(r.Lines(r.ctx(), "t1"))(r) {
		at = append(at, l.At.Sub(now.Truncate(time.Millisecond)))
	}
	if want := []time.Duration{0, time.Minute, time.Minute, 2 * time.Minute}; !slices.Equal(at, want) {
		t.Errorf("the times are %v, want %v", at, want)
	}
}

func TestK17OnlyWhoHoldsTheLeaseWritesTheLog(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.submitKind("thumbnail", "t1")
		g := r.leaseOf("thumbnail")
		for name, tt := range map[string]struct {
			caller queue.Caller
			lease  string
			want   error
		}{
			"another worker":              {queue.Caller{Worker: "w2", Kind: "thumbnail"}, g.LeaseID, jobs.ErrLeaseLost},
			"another lease":               {as("thumbnail"), "old", jobs.ErrLeaseLost},
			"on the path of another kind": {as("wordcount"), g.LeaseID, queue.ErrNoJob},
		} {
			if err := r.write(tt.caller, "t1", tt.lease, 0, "a"); !errors.Is(err, tt.want) {
				r.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		}
		if err := r.write(as("thumbnail"), "t2", g.LeaseID, 0, "a"); !errors.Is(err, queue.ErrNoJob) {
			r.Errorf("a job that is not known: %v", err)
		}
		if got := r.logOf("t1"); len(got) > 0 {
			r.Errorf("the log is %q", got)
		}
	})
}

// The last lines of a job come with its result, and those that are known are passed over.
func TestK18LinesComeWithAResult(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.submitKind("thumbnail", "t1")
		r.submitKind("thumbnail", "t2")
		g1, g2 := r.leaseOf("thumbnail"), r.leaseOf("thumbnail")
		r.wrote(g1, 0, "a", "b")
		finish := func(g queue.Grant, before int, lines ...string) queue.ResultOf {
			return queue.ResultOf{Job: g.Job, Lease: g.LeaseID, Result: queue.Result{JSON: `{}`, Meta: "{}", Log: queue.Log{Before: before, Lines: lines}}}
		}
		all := []queue.ResultOf{finish(g1, 1, "b", "c"), finish(g2, 0)}
		for range 2 { // the second time the answer to the first was lost
			for i, v := range r.FinishAll(r.ctx(), as("thumbnail"), all) {
				if v.Err != nil {
					r.Errorf("result %d: %v", i, v.Err)
				}
			}
		}
		if got, want := r.logOf("t1"), []string{"1 a", "2 b", "3 c"}; !slices.Equal(got, want) {
			r.Errorf("the log is %q, want %q", got, want)
		}
		if got := r.logOf("t2"); len(got) > 0 {
			r.Errorf("the log of the other is %q", got)
		}
		// A result that is not taken brings no lines.
		r.submitKind("thumbnail", "t3")
		g3 := r.leaseOf("thumbnail")
		g3.LeaseID = "old"
		if v := r.FinishAll(r.ctx(), as("thumbnail"), []queue.ResultOf{finish(g3, 0, "x")})[0]; !errors.Is(v.Err, jobs.ErrLeaseLost) {
			r.Errorf("under another lease: %v", v.Err)
		}
		if got := r.logOf("t3"); len(got) > 0 {
			r.Errorf("the log is %q", got)
		}
		r.sound()
	})
}
