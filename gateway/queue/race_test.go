package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

// Everybody does everything at once; then the books must balance: every job has
// finished once, or is a dead letter, or waits, and is nowhere else.
func TestManyAtOnceKeepTheBooks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Now = time.Now
	r.LeaseTTL, r.Skew, r.MaxRetries = 15*time.Millisecond, time.Millisecond, 2
	const workers, each = 12, 60
	ctx, stop := context.WithCancel(r.ctx())
	var mu sync.Mutex
	recorded, canceled, lates := map[jobs.ID]int{}, map[jobs.ID]bool{}, 0
	finishedOnce := func(id jobs.ID) {
		mu.Lock()
		defer mu.Unlock()
		recorded[id]++
	}
	odd := func(what string, err error, allowed ...error) {
		if err == nil || ctx.Err() != nil {
			return
		}
		for _, a := range allowed {
			if errors.Is(err, a) {
				return
			}
		}
		r.Errorf("%s: %v", what, err)
	}

	// run does with a job what a worker may.
	run := func(rng *rand.Rand, c queue.Caller, g queue.Grant) {
		c.Kind = g.Kind
		how := queue.Failure{Code: "X", RetryPolicy: queue.Retry}
		if g.Kind == "thumbnail" {
			how = queue.Failure{Code: "X", RetryPolicy: queue.RetryByKind, Waits: []time.Duration{time.Millisecond}}
		}
		if rng.IntN(3) == 0 {
			<-time.After(time.Duration(rng.IntN(30)) * time.Millisecond) // some leases are over then
		}
		switch rng.IntN(6) {
		case 0:
			_, err := r.Queue.Fail(ctx, c, g.Job, g.LeaseID, how)
			odd("fail", err, jobs.ErrLeaseLost)
		case 1:
			_, err := r.Queue.Fail(ctx, c, g.Job, g.LeaseID, queue.Failure{Code: "X", RetryPolicy: queue.ReturnUncounted})
			odd("back", err, jobs.ErrLeaseLost)
		case 2:
			_, err := r.Extend(ctx, c, g.Job, g.LeaseID, queue.Beat{})
			odd("extend", err, jobs.ErrLeaseLost)
		default:
			for range 2 { // the second is the repetition of a lost answer
				rec, late, err := r.Finish(ctx, c, g.Job, g.LeaseID, queue.Result{JSON: `{}`})
				odd("finish", err, jobs.ErrLeaseLost)
				if err == nil && !rec.Duplicate {
					finishedOnce(g.Job)
				}
				if late && rng.IntN(2) == 0 {
					err := r.AcceptLate(ctx, g.Job)
					odd("accept", err, queue.ErrNoJob, queue.ErrAlreadyFinished)
					if err == nil {
						finishedOnce(g.Job)
						mu.Lock()
						lates++
						mu.Unlock()
					}
				}
			}
		}
	}

	var producers, rest sync.WaitGroup
	for i := range workers {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		c := queue.Caller{Worker: fmt.Sprint("w", i)}
		producers.Go(func() {
			for n := range each {
				id := jobs.ID(fmt.Sprintf("j-%d-%d", i, n))
				_, err := r.SubmitJob(ctx, queue.Submission{ID: id, Kind: []jobs.Kind{"", "thumbnail", "wordcount"}[rng.IntN(3)], Payload: []byte("{}")})
				odd("submit", err)
				if rng.IntN(10) == 0 {
					_, err := r.Cancel(ctx, id)
					odd("cancel", err)
					j, err := r.Job(ctx, id)
					odd("read", err)
					if j.Detail == "canceled" {
						mu.Lock()
						canceled[id] = true
						mu.Unlock()
					}
				}
				grants, _, err := r.LeaseJobs(ctx, c, queue.LeaseRequest{Renews: true, Kinds: []jobs.Kind{"wordcount", "zpe", "thumbnail"}}, 1+rng.IntN(3))
				odd("lease", err)
				for _, g := range grants {
					run(rng, c, g)
				}
			}
		})
	}
	for _, q := range r.replicas(0, 20*time.Second) {
		q.Now = time.Now
		q.Rules = r.Rules
		rest.Go(func() {
			for ctx.Err() == nil {
				_, err := q.Reap(ctx)
				odd("reap", err)
				_, err = q.Promote(ctx)
				odd("promote", err)
				for _, kind := range []jobs.Kind{"zpe", "thumbnail", "wordcount"} {
					dead, _, err := q.DeadLettersOf(ctx, kind, 0, 3)
					odd("dead letters", err)
					if len(dead) > 0 {
						odd("requeue", q.Requeue(ctx, dead[0].ID), queue.ErrNoJob)
					}
				}
				rep, err := q.Fsck(ctx, true) // repairs nothing, because nothing is damaged
				odd("fsck", err)
				if err == nil && !clean(rep) {
					r.Errorf("fsck: %+v", rep)
				}
			}
		})
	}
	producers.Wait()
	stop()
	rest.Wait()

	r.soundBut("stale entry") // canceled and late jobs leave entries
	byState := map[string]int{}
	for i := range workers {
		for n := range each {
			id := jobs.ID(fmt.Sprintf("j-%d-%d", i, n))
			j := must(r.Job(r.ctx(), id))(r)
			byState[j.Status]++
			if want := map[bool]int{true: 1}[j.Status == "finished"]; recorded[id] != want {
				r.Errorf("%s is %s and has finished %d times", id, j.Status, recorded[id])
			}
			if canceled[id] && recorded[id] == 0 && j.Detail != "canceled" {
				r.Errorf("%s was canceled, and is %+v", id, j)
			}
		}
	}
	s := must(r.Stats(r.ctx()))(r)
	if byState["started"] != s.Leased || byState["finished"] == 0 || byState[""] > 0 {
		r.Errorf("%v, but %+v", byState, s)
	}
	t.Logf("%v, %+v, %d late results accepted", byState, s, lates)
}
