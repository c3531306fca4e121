package queue_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

// submitKind queues jobs of a kind, a second after each other.
func (r *rig) comeKind(kind jobs.Kind, ids ...jobs.ID) {
	r.Helper()
	for _, id := range ids {
		must(r.SubmitJob(r.ctx(), queue.Submission{ID: id, Kind: kind, Payload: []byte("{}")}))(r)
		r.clock.pass(time.Second)
	}
}

// leaseThumbnails leases so many jobs of a kind for w1.
func (r *rig) leaseThumbnails(most int) []queue.Grant {
	r.Helper()
	const kind = jobs.Kind("thumbnail")
	grants, _, err := r.LeaseJobs(r.ctx(), queue.Caller{Worker: "w1", Kind: kind}, queue.LeaseRequest{Renews: true, Kinds: []jobs.Kind{kind}}, most)
	if err != nil || len(grants) != most {
		r.Fatalf("leased %+v, %v; want %d", grants, err, most)
	}
	return grants
}

func (r *rig) counts(others bool) queue.Counts {
	r.Helper()
	return must(r.Count(r.ctx(), others))(r)
}

func TestD01CountsAreThoseOfTheScope(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		began := r.clock.Now().Truncate(time.Millisecond).UTC()
		r.submit("z1", "z2", "z3", "z4", "z5")
		r.clock.pass(time.Second)
		r.comeKind("thumbnail", "t1", "t2", "t3", "t4")
		r.comeKind("ocr", "o1", "o2")
		must(r.finish(w1, r.lease(w1, "z1"), "{}"))(r)
		r.fail(w1, r.lease(w1, "z2"), queue.Final)
		r.fail(w1, r.lease(w1, "z3"), queue.Retry) // delayed
		r.lease(w1, "z4")
		grants := r.leaseThumbnails(2)
		must(r.Queue.Fail(r.ctx(), queue.Caller{Worker: "w1", Kind: "thumbnail"}, grants[1].Job, grants[1].LeaseID, queue.Failure{Code: "X", RetryPolicy: queue.Retry}))(r)
		must(r.Cancel(r.ctx(), "o1"))(r)

		hour := began.Truncate(time.Hour)
		c := r.counts(false)
		want := map[string]int{queue.Queued: 2, queue.Started: 1, queue.Finished: 1, queue.Failed: 1, queue.Canceled: 0}
		if !maps.Equal(c.States, want) || c.Dead != 1 {
			t.Errorf("zpe has %+v, want %v and a dead letter", c, want)
		}
		if want := []queue.KindCount{{Kind: "zpe", Queued: 2, Running: 1, Oldest: began}}; !slices.Equal(c.Kinds, want) {
			t.Errorf("kinds of zpe are %+v, want %+v", c.Kinds, want)
		}
		if want := (queue.Flow{In: 5, Succeeded: 1, Failed: 1}); c.Total != want || !slices.Equal(c.Hours, []queue.Flow{{hour, 5, 1, 1, 0}}) {
			t.Errorf("zpe had %+v, by the hour %+v; want %+v", c.Total, c.Hours, want)
		}
		c = r.counts(true)
		want = map[string]int{queue.Queued: 4, queue.Started: 1, queue.Finished: 0, queue.Failed: 0, queue.Canceled: 1}
		if !maps.Equal(c.States, want) || c.Dead != 0 {
			t.Errorf("the others have %+v, want %v", c, want)
		}
		// The entry of o1 is still in its queue, and o2 is the oldest.
		if want := []queue.KindCount{
			{Kind: "ocr", Queued: 2, Oldest: began.Add(6 * time.Second)}, {Kind: "thumbnail", Queued: 3, Running: 1, Oldest: began.Add(3 * time.Second)},
		}; !slices.Equal(c.Kinds, want) {
			t.Errorf("the other kinds are %+v, want %+v", c.Kinds, want)
		}
		if want := (queue.Flow{In: 6, Canceled: 1}); c.Total != want || !slices.Equal(c.Hours, []queue.Flow{{hour, 6, 0, 0, 1}}) {
			t.Errorf("the others had %+v, by the hour %+v; want %+v", c.Total, c.Hours, want)
		}
		r.soundBut("stale entry")
	})
}

func TestD01JobsThatEndTogetherAreCountedEach(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.comeKind("thumbnail", "a", "b", "c")
		grants := r.leaseThumbnails(3)
		results := []queue.ResultOf{}
		for _, g := range append(grants, grants[0]) { // that again changes nothing
			results = append(results, queue.ResultOf{Job: g.Job, Lease: g.LeaseID, Result: queue.Result{JSON: "{}"}})
		}
		r.FinishAll(r.ctx(), queue.Caller{Worker: "w1", Kind: "thumbnail"}, results)
		if c := r.counts(true); c.Total != (queue.Flow{In: 3, Succeeded: 3}) {
			t.Errorf("counted %+v, want three that have succeeded", c.Total)
		}
	})
}

func TestD01HoursThatAreOverStayInTheTotals(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		for i := range 30 {
			r.submit(jobs.ID(fmt.Sprint("j", i)))
			r.clock.pass(time.Hour)
		}
		for range 2 {
			c := r.counts(false)
			if c.Total.In != 30 || len(c.Hours) != 24 { // the current one has none
				t.Errorf("%d jobs came, in %d hours; want 30, in 24", c.Total.In, len(c.Hours))
			}
			if err := r.FoldHours(r.ctx()); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.rdb.HLen(r.ctx(), "zpe:counts").Val(); n != 25+1 {
			t.Errorf("%d fields are kept, want 25 hours and a total", n)
		}
	})
}

func TestD01KindsAreEstimatedBeyondSomeThousandJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pipe := r.rdb.Pipeline()
	for i := range 3000 {
		id, kind := fmt.Sprint("j", i), []string{"a", "b", "b"}[i%3]
		pipe.HSet(r.ctx(), "zpe:status:"+id, "status", "started", "kind", kind)
		pipe.Do(r.ctx(), "ZADD", "zpe:other_jobs:started", i, id)
	}
	must(pipe.Exec(r.ctx()))(r)
	c := r.counts(true)
	if c.States[queue.Started] != 3000 || len(c.Kinds) != 2 || c.Kinds[0].Running+c.Kinds[1].Running != 3000 {
		t.Fatalf("counted %+v, want 3000 jobs of two kinds", c)
	}
	if n := c.Kinds[0].Running; n < 900 || n > 1100 {
		t.Errorf("%d of the kind that every third job has", n)
	}
}

func TestD01SomebodyElsesKeysStopNoJob(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		for _, key := range []string{"zpe:counts", "zpe:changes"} {
			r.do("SET", key, "somebody else's")
		}
		r.submit("a", "b")
		must(r.finish(w1, r.lease(w1, "a"), "{}"))(r)
		if c := r.counts(false); c.States[queue.Finished] != 1 || c.Total.In != 0 {
			t.Errorf("counted %+v", c)
		}
		rep := must(r.Fsck(r.ctx(), true))(r)
		if rep.Counts["wrong type"] != 2 || rep.Left != 0 {
			t.Errorf("fsck: %+v", rep)
		}
		r.sound()
		must(r.finish(w1, r.lease(w1, "b"), "{}"))(r)
		if c := r.counts(false); c.Total.Succeeded != 1 {
			t.Errorf("after the repair: %+v", c)
		}
	})
}
