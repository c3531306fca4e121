package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestZ71ReaperTakesWhatIsOverByMoreThanTheSkew(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		r.lease(w1, "a")
		r.clock.pass(r.LeaseTTL + r.Skew - time.Millisecond)
		if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 0 {
			r.Errorf("too early: %+v", reaped)
		}
		r.clock.pass(time.Millisecond)
		reaped := must(r.Reap(r.ctx()))(r)
		if len(reaped) != 1 || reaped[0] != (queue.Reaped{Job: "a", Worker: "w1", Became: "delayed", Code: "LEASE_EXPIRED", Retries: 1}) {
			r.Errorf("%+v", reaped)
		}
		if j := r.status("a", "queued"); j.ErrorCode != "LEASE_EXPIRED" || j.Retries != 1 {
			r.Errorf("%+v", j)
		}
		r.sound()
	})
}

func TestZ71ExpiryDoesNotKeepTheWordsOfAnEarlierFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.submit("a")
	r.fail(w1, r.lease(w1, "a"), queue.Retry)
	r.clock.pass(time.Minute)
	r.lease(w1, "a")
	r.clock.pass(time.Hour)
	must(r.Reap(r.ctx()))(r)
	if j := r.status("a", "queued"); j.ErrorCode != "LEASE_EXPIRED" || j.ErrorMessage != "" {
		r.Errorf("%+v", j)
	}
}

func TestZ71ExtensionOrResultBeforeTheReaperWins(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		a, b := r.lease(w1, "a"), r.lease(w1, "b")
		r.clock.pass(r.LeaseTTL + time.Hour)
		// The reaper has seen both as over, and looks again.
		must(r.Extend(r.ctx(), w1, "a", a.LeaseID, queue.Beat{}))(r)
		r.do("ZADD", "zpe:lease:index", "1", "a")
		must(r.finish(w1, b, `{}`))(r)
		if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 0 {
			r.Errorf("%+v", reaped)
		}
		r.sound() // the index says again what the lease says
	})
}

func TestZ71ReaperTakesAnyNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 350
	r.MaxLeases = n
	for i := range n {
		r.submit(jobs.ID(fmt.Sprintf("j%03d", i)))
	}
	for i := range n {
		r.lease(w1, jobs.ID(fmt.Sprintf("j%03d", i)))
	}
	r.clock.pass(time.Hour)
	if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != n {
		r.Errorf("reaped %d of %d", len(reaped), n)
	}
	r.clock.pass(time.Hour)
	if moved := must(r.Promote(r.ctx()))(r); moved != n {
		r.Errorf("moved %d of %d", moved, n)
	}
	r.lease(w1, "j000")
	r.sound()
}

func TestZ72IndexEntryWithoutLeaseGoes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.do("ZADD", "zpe:lease:index", "1", "ghost")
		reaped := must(r.Reap(r.ctx()))(r)
		if len(reaped) != 1 || reaped[0].Became != "orphan" {
			r.Errorf("%+v", reaped)
		}
		r.is("0", "EXISTS", "zpe:lease:index", "zpe:delay", "zpe:queue", "zpe:status:ghost")
	})
}

func TestZ72ReaperCopesWithADamagedLease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b")
		r.lease(w1, "a")
		r.lease(w1, "b")
		r.do("HDEL", "zpe:lease:a", "expires_at", "worker_id")
		r.do("SET", "zpe:retry_count:a", "many")
		r.clock.pass(time.Hour)
		if reaped := must(r.Reap(r.ctx()))(r); len(reaped) != 2 {
			r.Errorf("%+v", reaped)
		}
		r.sound()
	})
}

func TestZ71ForeignKeyKeepsNoOtherLeaseFromBeingTakenBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lease", "status", "reaped", "payload", "retry_count"} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				r.submit("a", "b")
				r.lease(w1, "a")
				r.clock.pass(time.Second)
				r.lease(w1, "b")
				r.do("DEL", "zpe:"+name+":a")
				r.do("SADD", "zpe:"+name+":a", "somebody else's")
				r.clock.pass(time.Hour)
				reaped := must(r.Reap(r.ctx()))(r)
				if len(reaped) != 2 || reaped[1].Job != "b" || reaped[1].Became != "delayed" {
					r.Fatalf("%+v", reaped)
				}
				r.is("[]", "ZRANGE", "zpe:lease:index", "0", "-1")
				if reaped[0].Became == "foreign" {
					r.is("[a]", "LRANGE", "zpe:dlq", "0", "-1")
				} else {
					r.is("[a b]", "ZRANGE", "zpe:delay", "0", "-1")
				}
			})
		})
	}
}

// replicas are gateways on one Redis whose clocks are apart.
func (r *rig) replicas(ahead ...time.Duration) []*queue.Queue {
	list := make([]*queue.Queue, len(ahead))
	for i, d := range ahead {
		list[i] = queue.New(r.rdb, r.Rules)
		list[i].Now = func() time.Time { return r.clock.Now().Add(d) }
	}
	return list
}

func TestZ73TwoReplicasPromoteEachJobOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		const n = 250
		for i := range n {
			id := jobs.ID(fmt.Sprintf("j%03d", i))
			r.submit(id)
			r.fail(w1, r.lease(w1, id), queue.Retry)
		}
		r.is(fmt.Sprint(n), "ZCARD", "zpe:delay")
		r.clock.pass(time.Minute)
		moved := make([]int, 4)
		var wg sync.WaitGroup
		for i, q := range r.replicas(0, 20*time.Second, 0, 20*time.Second) {
			wg.Go(func() {
				var err error
				if moved[i], err = q.Promote(r.ctx()); err != nil {
					r.Error(err)
				}
			})
		}
		wg.Wait()
		if sum := moved[0] + moved[1] + moved[2] + moved[3]; sum != n {
			r.Errorf("moved %v, %d jobs in all, want %d", moved, sum, n)
		}
		r.is(fmt.Sprint(n), "LLEN", "zpe:queue")
		r.sound()
	})
}

func TestZ74ReplicaAheadStealsNoLiveLease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		rep := r.replicas(0, 20*time.Second)
		on, ahead := rep[0], rep[1]
		r.submit("a", "b")
		leased := func(q *queue.Queue) queue.Grant {
			g, err := q.Lease(r.ctx(), w1, queue.LeaseRequest{Renews: true})
			if err != nil || g.Job == "" {
				r.Fatal(g, err)
			}
			return g
		}
		grants := []queue.Grant{leased(on), leased(ahead)}
		// The workers extend every third of a lease, now here, now there, and one of
		// three calls is lost.
		for i := range 60 {
			r.clock.pass(r.LeaseTTL / 3)
			for _, q := range rep {
				if reaped, err := q.Reap(r.ctx()); err != nil || len(reaped) > 0 {
					r.Fatalf("after %d extensions %+v, %v", i, reaped, err)
				}
			}
			if i%3 == 2 {
				continue
			}
			for k, g := range grants {
				must(rep[(i+k)%2].Extend(r.ctx(), w1, g.Job, g.LeaseID, queue.Beat{}))(r)
			}
		}
		r.sound()
		r.clock.pass(r.LeaseTTL + 25*time.Second)
		var wg sync.WaitGroup
		taken := make([][]queue.Reaped, 2)
		for i, q := range rep {
			wg.Go(func() { taken[i], _ = q.Reap(r.ctx()) })
		}
		wg.Wait()
		if n := len(taken[0]) + len(taken[1]); n != 2 {
			r.Errorf("two silent workers, %d leases taken back: %+v", n, taken)
		}
		for _, id := range []string{"a", "b"} {
			r.is("1", "GET", "zpe:retry_count:"+id)
		}
	})
}

func TestZ75DeadLettersAreListedRequeuedAndDropped(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		ids := []jobs.ID{"a", "b", "c", "d"}
		r.submit(ids...)
		for _, id := range ids {
			r.fail(w1, r.lease(w1, id), queue.Final)
		}
		list, total, err := r.DeadLetters(r.ctx(), 1, 2)
		if err != nil || total != 4 || len(list) != 2 || list[0].ID != "c" || list[1].ID != "b" || list[0].Detail != "X: y" {
			r.Fatalf("%+v, %d, %v", list, total, err)
		}
		if list, total, err := r.DeadLetters(r.ctx(), 9, 2); err != nil || total != 4 || len(list) != 0 {
			r.Errorf("beyond the end: %+v, %d, %v", list, total, err)
		}
		if _, _, err := r.DeadLetters(r.ctx(), 0, 0); err == nil {
			r.Error("a limit of 0 lists all")
		}
		if err := r.Requeue(r.ctx(), "a"); err != nil {
			r.Fatal(err)
		}
		if g := r.lease(w1, "a"); g.Retries != 0 {
			r.Errorf("%+v", g)
		}
		if err := r.Drop(r.ctx(), "b"); err != nil {
			r.Fatal(err)
		}
		r.is("0", "EXISTS", "zpe:payload:b", "zpe:retry_count:b")
		r.status("b", "failed")
		r.do("DEL", "zpe:payload:c")
		if err := r.Requeue(r.ctx(), "c"); !errors.Is(err, queue.ErrPayloadMissing) {
			r.Error(err)
		}
		for id, exists := range map[jobs.ID]bool{"a": true, "b": true, "none": false} {
			if err := r.Requeue(r.ctx(), id); !errors.Is(err, queue.ErrNoJob) || errors.Is(err, queue.ErrNotDead) != exists {
				r.Errorf("requeue %s: %v", id, err)
			}
			if err := r.Drop(r.ctx(), id); !errors.Is(err, queue.ErrNoJob) || errors.Is(err, queue.ErrNotDead) != exists {
				r.Errorf("drop %s: %v", id, err)
			}
		}
		r.is("[d c]", "LRANGE", "zpe:dlq", 0, -1)
		r.sound()
	})
}

func TestZ75ForeignKeyHidesNoOtherDeadLetter(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		for _, id := range []jobs.ID{"a", "b"} {
			r.submit(id)
			r.fail(w1, r.lease(w1, id), queue.Final)
		}
		r.do("DEL", "zpe:status:a", "zpe:retry_count:b")
		r.do("SET", "zpe:status:a", "somebody else's")
		r.do("SADD", "zpe:retry_count:b", "somebody else's")
		list, total, err := r.DeadLetters(r.ctx(), 0, 10)
		if err != nil || total != 2 || len(list) != 2 || list[0].Status != "failed" || !strings.Contains(list[1].Detail, "zpe:status:a") {
			r.Errorf("%+v, %d, %v", list, total, err)
		}
	})
}

func TestZ75DeadLetterOfALivingJobIsOnlyAnEntry(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		g := r.lease(w1, "a")
		r.do("LPUSH", "zpe:dlq", "a")
		if err := r.Requeue(r.ctx(), "a"); !errors.Is(err, queue.ErrNoJob) {
			r.Error(err)
		}
		if err := r.Drop(r.ctx(), "a"); err != nil {
			r.Error(err)
		}
		r.is("1", "EXISTS", "zpe:payload:a")
		if _, err := r.finish(w1, g, `{}`); err != nil {
			r.Error(err)
		}
		r.sound()
	})
}
