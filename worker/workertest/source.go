package workertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// Queue is a source under test with a way to fill it. Leases last longer than a test.
type Queue struct {
	worker.Source
	// Submit puts a job into the queue; it fails the test when it cannot. It may be
	// called concurrently.
	Submit func(t *testing.T, job jobs.Job)
}

// Source runs the suite. Every test calls open for an empty queue of its own.
func Source(t *testing.T, open func(t *testing.T) Queue) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Queue)
	}{
		{"a job is leased whole", leasedWhole},
		{"a lease call waits for a job", leaseWaits},
		{"a lease call ends with the cause of its context", leaseEnds},
		{"an acked job is never handed out again", ackEnds},
		{"a nacked job is handed out again at once", nackReturns},
		{"a nack may delay a job", nackDelays},
		{"a lease that runs out makes its job available again", leaseExpires},
		{"an extended lease stays", extendKeeps},
		{"what is told of a lease that is over changes nothing", overIsOver},
		{"others may hand back a lease", returns},
		{"a source that can choose is asked by kind", choosesByKind},
		{"concurrent calls lease each job once", concurrently},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// lease leases a job and fails the test unless it is the wanted one.
func (q Queue) lease(t *testing.T, want jobs.ID) jobs.Lease {
	t.Helper()
	l, err := q.Lease(within(t))
	if err != nil || l.Job.ID != want || l.Invalid != nil {
		t.Fatalf("lease = %+v, %v; want job %s", l, err, want)
	}
	return l
}

func (q Queue) extend(t *testing.T, ttl time.Duration, leases ...jobs.Lease) {
	t.Helper()
	if lost, err := q.Extend(within(t), leases, ttl); err != nil || len(lost) > 0 {
		t.Fatalf("extend: lost %v, %v", lost, err)
	}
}

func (q Queue) ack(t *testing.T, l jobs.Lease) {
	t.Helper()
	if err := q.Ack(within(t), l); err != nil {
		t.Fatalf("ack: %v", err)
	}
}

func (q Queue) nack(t *testing.T, l jobs.Lease, delay time.Duration) {
	t.Helper()
	if err := q.Nack(within(t), l, delay); err != nil {
		t.Fatalf("nack: %v", err)
	}
}

func leasedWhole(t *testing.T, q Queue) {
	job := jobs.Job{ID: "a", Kind: "mock", Pages: 7}
	q.Submit(t, job)
	l := q.lease(t, "a")
	if l.Job.Kind != job.Kind || l.Job.Pages != job.Pages {
		t.Errorf("leased %+v, want %+v", l.Job, job)
	}
	if l.ID == "" || l.Raw.ID == "" {
		t.Errorf("the lease has id %q and its message %q, want both", l.ID, l.Raw.ID)
	}
}

func leaseWaits(t *testing.T, q Queue) {
	var asking sync.WaitGroup
	asking.Go(func() {
		if l, err := q.Lease(within(t)); err != nil || l.Job.ID != "a" {
			t.Errorf("lease = %+v, %v; want job a", l, err)
		}
	})
	q.Submit(t, jobs.Job{ID: "a", Kind: "mock"})
	asking.Wait()
}

func leaseEnds(t *testing.T, q Queue) {
	cause := errors.New("told to stop")
	ctx, stop := context.WithCancelCause(within(t))
	var asking sync.WaitGroup
	asking.Go(func() {
		if _, err := q.Lease(ctx); !errors.Is(err, cause) {
			t.Errorf("lease: %v, want the cause of its context", err)
		}
	})
	stop(cause)
	asking.Wait()
}

func ackEnds(t *testing.T, q Queue) {
	q.Submit(t, jobs.Job{ID: "a", Kind: "mock"})
	l := q.lease(t, "a")
	q.ack(t, l)
	q.nack(t, l, 0) // would hand it out again
	q.Submit(t, jobs.Job{ID: "b", Kind: "mock"})
	q.lease(t, "b")
}

func nackReturns(t *testing.T, q Queue) {
	q.Submit(t, jobs.Job{ID: "a", Kind: "mock"})
	first := q.lease(t, "a")
	q.nack(t, first, 0)
	second := q.lease(t, "a")
	if second.ID == first.ID || second.Raw.ID != first.Raw.ID {
		t.Errorf("lease %q of message %q, then %q of %q; want another lease of the same message", first.ID, first.Raw.ID, second.ID, second.Raw.ID)
	}
}

func nackDelays(t *testing.T, q Queue) {
	const delay = time.Second
	q.Submit(t, jobs.Job{ID: "a", Kind: "mock"})
	l := q.lease(t, "a")
	began := time.Now()
	q.nack(t, l, delay)
	q.lease(t, "a")
	if took := time.Since(began); took < delay {
		t.Errorf("handed out again after %s, want %s at least", took, delay)
	}
}

func leaseExpires(t *testing.T, q Queue) {
	q.Submit(t, jobs.Job{ID: "a", Kind: "mock"})
	first := q.lease(t, "a")
	q.extend(t, time.Second, first)
	if second := q.lease(t, "a"); second.ID == first.ID {
		t.Errorf("lease %q twice, want another one", first.ID)
	}
}

func extendKeeps(t *testing.T, q Queue) {
	q.Submit(t, jobs.Job{ID: "kept", Kind: "mock"})
	kept := q.lease(t, "kept")
	q.extend(t, 2*time.Minute, kept)
	q.Submit(t, jobs.Job{ID: "short", Kind: "mock"})
	short := q.lease(t, "short")
	q.extend(t, time.Second, short)
	q.lease(t, "short") // when this one has run out, the other has not
	q.ack(t, kept)
}

func overIsOver(t *testing.T, q Queue) {
	q.Submit(t, jobs.Job{ID: "a", Kind: "mock"})
	first := q.lease(t, "a")
	q.nack(t, first, 0)
	second := q.lease(t, "a")
	q.ack(t, first)
	q.nack(t, second, 0)
	q.lease(t, "a") // the ack of the lease that was over has not ended the job
}

func returns(t *testing.T, q Queue) {
	r, ok := q.Source.(worker.HandBacker)
	if !ok {
		t.Skip("no worker.HandBacker: others cannot hand back its leases")
	}
	q.Submit(t, jobs.Job{ID: "a", Kind: "mock"})
	l := q.lease(t, "a")
	for range 2 { // a lease that is over is no error
		if err := r.HandBack(within(t), l.Raw.Queue, []string{l.Raw.Ack}); err != nil {
			t.Fatal(err)
		}
	}
	q.lease(t, "a")
}

func choosesByKind(t *testing.T, q Queue) {
	c, ok := q.Source.(worker.KindSource)
	if !ok {
		t.Skip("no worker.KindSource: it hands out jobs of whatever kind")
	}
	cause := errors.New("told to stop")
	for i, kind := range []jobs.Kind{"mock", "pdf", "mock"} {
		q.Submit(t, jobs.Job{ID: jobs.ID(fmt.Sprintf("job%d", i)), Kind: kind, Input: "uploads/x.pdf"})
	}
	for _, want := range []jobs.ID{"job1", "job0", "job2"} {
		kinds := []jobs.Kind{"mock", "other"}
		if want == "job1" {
			kinds = []jobs.Kind{"pdf"}
		}
		if l, err := c.LeaseKinds(within(t), kinds); err != nil || l.Job.ID != want {
			t.Errorf("lease of %v = %+v, %v; want job %s", kinds, l, err, want)
		}
	}
	q.Submit(t, jobs.Job{ID: "a", Kind: "mock"})
	ctx, stop := context.WithCancelCause(within(t))
	stop(cause)
	if l, err := c.LeaseKinds(ctx, []jobs.Kind{"pdf"}); !errors.Is(err, cause) {
		t.Errorf("lease = %+v, %v; want the cause of its context", l, err)
	}
	q.lease(t, "a")
}

func concurrently(t *testing.T, q Queue) {
	const n, askers = 40, 4
	var mu sync.Mutex
	seen := map[jobs.ID]int{}
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	var running sync.WaitGroup
	for range askers {
		running.Go(func() {
			for {
				l, err := q.Lease(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				if err := q.Ack(context.WithoutCancel(ctx), l); err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[l.Job.ID]++
				if len(seen) == n {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		q.Submit(t, jobs.Job{ID: jobs.ID(fmt.Sprintf("job%02d", i)), Kind: "mock"})
	}
	running.Wait()
	for id, times := range seen {
		if times != 1 {
			t.Errorf("job %s was leased %d times, want once", id, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d jobs were leased", len(seen), n)
	}
}
