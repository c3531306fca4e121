package queue_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

func (r *rig) submitKind(kind jobs.Kind, ids ...jobs.ID) {
	r.Helper()
	for _, id := range ids {
		must(r.SubmitJob(r.ctx(), queue.Submission{ID: id, Kind: kind, Payload: []byte(`{}`)}))(r)
	}
}

// leaseOf leases a job of some kinds; it has none when there is none.
func (r *rig) leaseOf(kinds ...jobs.Kind) queue.Grant {
	r.Helper()
	return must(r.Lease(r.ctx(), w1, queue.LeaseRequest{Renews: true, Kinds: kinds}))(r)
}

// as is a worker that speaks of jobs of a kind.
func as(kind jobs.Kind) queue.Caller { return queue.Caller{Worker: "w1", Kind: kind} }

func TestK17AWorkerGetsJobsOfItsKindsOnly(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.submit("z1")
		r.submitKind("thumbnail", "t1", "t2")
		if g := r.leaseOf(); g.Job != "z1" || g.Kind != "" {
			r.Errorf("a worker that names no kinds got %+v, want z1", g)
		}
		if g := r.leaseOf(); g.Job != "" {
			r.Errorf("a worker that names no kinds got %+v, want nothing", g)
		}
		if g := r.leaseOf("wordcount", "zpe"); g.Job != "" {
			r.Errorf("a worker of other kinds got %+v", g)
		}
		if g := r.leaseOf("wordcount", "thumbnail"); g.Job != "t1" || g.Kind != "thumbnail" {
			r.Errorf("got %+v, want the oldest thumbnail", g)
		}
		if g := r.leaseOf("thumbnail"); g.Job != "t2" {
			r.Errorf("got %+v, want t2", g)
		}
		r.is("0", "EXISTS", "zpe:queue_kinds") // none of the other kinds has a job that waits
		r.sound()
	})
}

func TestK17KindsTakeTurns(t *testing.T) {
	onBoth(t, func(r *rig) {
		for i := range 30 { // one kind has come first with very many
			r.submitKind("flood", jobs.ID(fmt.Sprintf("f%02d", i)))
		}
		r.submitKind("thumbnail", "t1", "t2")
		r.submit("z1", "z2")
		var got []jobs.ID
		for range 8 {
			got = append(got, r.leaseOf("thumbnail", "zpe", "flood").Job)
		}
		want := []jobs.ID{"f00", "t1", "z1", "f01", "t2", "z2", "f02", "f03"}
		if !slices.Equal(got, want) {
			r.Errorf("leased %v, want %v", got, want)
		}
		r.submitKind("thumbnail", "t3")
		if g := r.leaseOf("zpe", "flood", "thumbnail"); g.Job != "t3" {
			r.Errorf("leased %s after three of another kind, want t3", g.Job)
		}
	})
}

func TestK17ARequestThatIsRepeatedGetsTheSameJobOfTheSameKind(t *testing.T) {
	r := newRig(t)
	r.submitKind("thumbnail", "t1", "t2")
	req := queue.LeaseRequest{Renews: true, RequestID: "r1", Kinds: []jobs.Kind{"thumbnail", "zpe"}}
	first := must(r.Lease(r.ctx(), w1, req))(r)
	again := must(r.Lease(r.ctx(), w1, req))(r)
	if again != first || first.Kind != "thumbnail" {
		t.Errorf("got %+v, and then %+v", first, again)
	}
}

func TestK17AJobIsKnownOnThePathOfItsKindOnly(t *testing.T) {
	r := newRig(t)
	r.submitKind("thumbnail", "t1")
	g := r.leaseOf("thumbnail")
	calls := map[string]func(c queue.Caller) error{
		"extend": func(c queue.Caller) error {
			_, err := r.Extend(r.ctx(), c, g.Job, g.LeaseID, queue.Beat{})
			return err
		},
		"finish": func(c queue.Caller) error {
			_, _, err := r.Finish(r.ctx(), c, g.Job, g.LeaseID, queue.Result{JSON: "{}"})
			return err
		},
		"fail": func(c queue.Caller) error {
			_, err := r.Queue.Fail(r.ctx(), c, g.Job, g.LeaseID, queue.Failure{Code: "X", RetryPolicy: queue.Retry})
			return err
		},
	}
	for name, call := range calls {
		for _, kind := range []jobs.Kind{"", "zpe", "wordcount"} {
			if err := call(as(kind)); !errors.Is(err, queue.ErrNoJob) {
				t.Errorf("%s on the path of kind %q: %v, want %v", name, kind, err, queue.ErrNoJob)
			}
		}
	}
	for _, name := range []string{"extend", "finish"} {
		if err := calls[name](as("thumbnail")); err != nil {
			t.Errorf("%s on the path of its kind: %v", name, err)
		}
	}
	r.is("0", "EXISTS", "zpe:summary:t1", "zpe:freqs:t1")
	if got := must(r.Result(r.ctx(), "t1"))(r); got != "{}" {
		t.Errorf("its result is %q", got)
	}
	r.sound()
}

func TestK17FailuresThatAKindAllowsAreCountedApartFromLostLeases(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.MaxRetries = 1
		r.submitKind("thumbnail", "t1")
		waits := []time.Duration{2 * time.Second, time.Hour}
		fail := func() queue.FailResult {
			r.Helper()
			g := r.leaseOf("thumbnail")
			return must(r.Queue.Fail(r.ctx(), as("thumbnail"), g.Job, g.LeaseID, queue.Failure{
				Code: "X", Message: "y", RetryPolicy: queue.RetryByKind, Waits: waits,
			}))(r)
		}
		if f := fail(); !f.Requeued || f.Retries != 1 {
			r.Fatalf("after the first failure %+v", f)
		}
		if j := r.status("t1", "queued"); !j.RunAfter.Equal(r.Now().Add(2 * time.Second)) {
			r.Errorf("it runs again at %v, now it is %v", j.RunAfter, r.Now())
		}
		r.clock.pass(2 * time.Second)

		g := r.leaseOf("thumbnail") // an attempt whose worker is lost: that is no failure of the job
		if g.Failures != 1 || g.Retries != 1 {
			r.Errorf("leased %+v, want one failure", g)
		}
		r.clock.pass(r.LeaseTTL + 2*r.Skew)
		if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 1 || reaped[0].Became != "delayed" || reaped[0].Kind != "thumbnail" || reaped[0].Retries != 2 {
			r.Fatalf("reaped %+v", reaped)
		}
		r.clock.pass(time.Minute)
		if f := fail(); !f.Requeued || f.Retries != 3 {
			r.Fatalf("after the second failure %+v", f)
		}
		r.clock.pass(time.Hour)
		if j := r.status("t1", "queued"); j.Attempt != 3 {
			r.Errorf("it has had attempt %d, want 3", j.Attempt)
		}
		if f := fail(); !f.Dead || f.Retries != 4 {
			r.Fatalf("after the third failure %+v", f)
		}
		dead, total, err := r.DeadLettersOf(r.ctx(), "thumbnail", 0, 10)
		if err != nil || total != 1 || dead[0].ID != "t1" || dead[0].Kind != "thumbnail" {
			r.Errorf("dead letters of its kind are %+v, %d, %v", dead, total, err)
		}
		if _, total, err := r.DeadLetters(r.ctx(), 0, 10); err != nil || total != 0 {
			r.Errorf("kind zpe has %d dead letters, %v", total, err)
		}
		r.sound()

		if err := r.Requeue(r.ctx(), "t1"); err != nil {
			r.Fatal(err)
		}
		if g := r.leaseOf("thumbnail"); g.Job != "t1" || g.Failures != 0 || g.Retries != 0 {
			r.Errorf("after it was queued again: %+v", g)
		}
		r.is("0", "EXISTS", "zpe:dlq_kinds")
		r.sound()
	})
}

func TestK17OtherKindsAreListedBesideThoseOfZPE(t *testing.T) {
	r := newRig(t)
	r.submit("z1")
	r.submitKind("thumbnail", "t1")
	r.submitKind("wordcount", "c1")
	ids := func(others bool) (ids []jobs.ID) {
		page, _, err := r.List(r.ctx(), queue.ListQuery{Limit: 10, Others: others})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page {
			ids = append(ids, j.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got := ids(false); !slices.Equal(got, []jobs.ID{"z1"}) {
		t.Errorf("zpe has %v", got)
	}
	if got := ids(true); !slices.Equal(got, []jobs.ID{"c1", "t1"}) {
		t.Errorf("other kinds have %v", got)
	}
}

// TestK17ThousandKindsAtRestCostNothing counts the commands by which a gateway looks after
// its Redis: they are as many whether there were one kind or a thousand.
func TestK17ThousandKindsAtRestCostNothing(t *testing.T) {
	r := newRig(t)
	commands := func() int {
		r.do("CONFIG", "RESETSTAT")
		must(r.Reap(r.ctx()))(r)
		must(r.PromoteKinds(r.ctx()))(r)
		must(r.Runnable(r.ctx()))(r)
		must(r.Stats(r.ctx()))(r)
		for at := (queue.Place{}); !at.End(); {
			next, _, err := r.Unlist(r.ctx(), at)
			if err != nil {
				t.Fatal(err)
			}
			at = next
		}
		n := 0
		for _, calls := range regexp.MustCompile(`:calls=(\d+)`).FindAllStringSubmatch(r.do("INFO", "commandstats"), -1) {
			n += must(strconv.Atoi(calls[1]))(r)
		}
		return n
	}
	run := func(kind jobs.Kind, id jobs.ID) {
		r.submitKind(kind, id)
		g := r.leaseOf(kind)
		if _, _, err := r.Finish(r.ctx(), as(kind), g.Job, g.LeaseID, queue.Result{JSON: "{}"}); err != nil {
			t.Fatal(err)
		}
	}
	run("k", "one")
	with1 := commands()
	for i := range 1000 {
		run(jobs.Kind(fmt.Sprint("k", i)), jobs.ID(fmt.Sprint("job", i)))
	}
	if with1000 := commands(); with1 == 0 || with1000 > with1 {
		t.Errorf("%d commands after jobs of one kind, %d after jobs of a thousand", with1, with1000)
	}
	r.sound()
}

func TestK17FsckFindsDamageOfOtherKinds(t *testing.T) {
	tests := []struct {
		name, kind string
		break_     func(r *rig) // of t1, which waits, and t2, which runs
		harmless   bool
	}{
		{"queued without an entry", "queued without entry", func(r *rig) { r.do("LREM", "zpe:queue:thumbnail", 0, "t1") }, false},
		{"a second entry", "in the queue twice", func(r *rig) { r.do("LPUSH", "zpe:queue:thumbnail", "t1") }, false},
		{"an entry in the queue of another kind", "stale entry", func(r *rig) { r.do("LPUSH", "zpe:queue", "t1") }, true},
		{"the only entry is in the queue of another kind", "queued without entry", func(r *rig) {
			r.do("LREM", "zpe:queue:thumbnail", 0, "t1")
			r.do("LPUSH", "zpe:queue", "t1")
		}, false},
		{"the queue is not registered", "queue not registered", func(r *rig) { r.do("DEL", "zpe:queue_kinds") }, false},
		{"the status of a job that waits is lost", "status missing", func(r *rig) { r.do("DEL", "zpe:status:t1") }, false},
		{"the status of a job that runs is lost", "status missing", func(r *rig) { r.do("DEL", "zpe:status:t2") }, false},
		{"a job that waits is not listed", "not listed", func(r *rig) { r.do("ZREM", "zpe:other_jobs:queued", "t1") }, false},
		{"a job is listed as one of zpe, too", "listed twice", func(r *rig) { r.do("ZADD", "zpe:jobs:queued", 1, "t1") }, false},
		{"its lease is lost", "started without lease", func(r *rig) {
			r.do("DEL", "zpe:lease:t2")
			r.do("ZREM", "zpe:lease:index", "t2")
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.submitKind("thumbnail", "t2", "t1")
			r.leaseOf("thumbnail")
			r.sound()
			tt.break_(r)
			rep := must(r.Fsck(r.ctx(), true))(r)
			if rep.Counts[tt.kind] != 1 || clean(rep) != tt.harmless {
				t.Errorf("found %+v, want one %q", rep.Findings, tt.kind)
			}
			if rep = must(r.Fsck(r.ctx(), false))(r); len(rep.Counts) > 0 {
				t.Errorf("after the repair there is still %+v", rep.Findings)
			}
			r.clock.pass(time.Hour) // a job that lost its lease is delayed
			must(r.Reap(r.ctx()))(r)
			r.clock.pass(time.Hour)
			got := []jobs.ID{r.leaseOf("thumbnail").Job, r.leaseOf("thumbnail").Job}
			slices.Sort(got)
			if !slices.Equal(got, []jobs.ID{"t1", "t2"}) {
				t.Errorf("leased %v after the repair, want both", got)
			}
		})
	}
}
