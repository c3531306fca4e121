package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// startBoth serves an emulator with a normal and a priority subscription, and a
// Priority over both with the given log.
func startBoth(t *testing.T) (s *emulator.Server, p *PrioritySource, normal, priority *Publisher) {
	t.Helper()
	s, l := startEmulator(t)
	if err := s.EnsureSubscription(subName+"-priority", topicName+"-priority", 600*time.Second); err != nil {
		t.Fatal(err)
	}
	src := source(t, l.Addr())
	src.grace = 5 * time.Second // a reply may be on its way for longer than usual
	normal, priority = publisher(t, l.Addr()), publisher(t, l.Addr())
	priority.topic += "-priority"
	p = &PrioritySource{Priority: src.Beside(subName + "-priority"), Normal: src, Share: 5, Leases: PriorityLeases(prometheus.NewRegistry())}
	t.Cleanup(func() { _ = p.Close() }) // before the sources are closed
	return s, p, normal, priority
}

func TestF14NothingIsHeldByNobodyAfterCallsWereCalledOff(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	s, p, normal, priority := startBoth(t)
	const n = 150
	var publishing, slots sync.WaitGroup
	for prefix, to := range map[string]*Publisher{"p": priority, "n": normal} {
		publishing.Go(func() {
			for _, id := range ids(prefix, n) {
				publish(t, to, jobs.Job{ID: id})
			}
		})
	}
	ctx, stop := context.WithCancel(within(t))
	var mu sync.Mutex
	seen := map[jobs.ID]bool{}
	for range 4 {
		slots.Go(func() {
			for {
				lease, err := p.Lease(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				if err := p.Ack(context.WithoutCancel(ctx), lease); err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[lease.Job.ID] = true
				if len(seen) == 2*n {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	publishing.Wait()
	slots.Wait()
	stop()
	_ = p.Close()
	if len(seen) != 2*n {
		t.Errorf("%d of %d jobs leased", len(seen), 2*n)
	}
	wantAll(t, s, 0, 0)
}

// wantAll is wantCounts for every subscription.
func wantAll(t *testing.T, s *emulator.Server, undelivered, leased int) {
	t.Helper()
	for _, st := range s.Stats() {
		if st.Undelivered != undelivered || st.Leased != leased {
			t.Errorf("%s: %d messages undelivered, %d leased; want %d and %d", st.Subscription, st.Undelivered, st.Leased, undelivered, leased)
		}
	}
}

func TestF01F14BothSubscriptionsShareOneConnection(t *testing.T) {
	s, l := startEmulator(t)
	if err := s.EnsureSubscription(subName+"-priority", topicName+"-priority", 600*time.Second); err != nil {
		t.Fatal(err)
	}
	src := source(t, l.Addr())
	p := &PrioritySource{Priority: src.Beside(subName + "-priority"), Normal: src, Share: 5, Leases: PriorityLeases(prometheus.NewRegistry())}
	cause := errors.New("told to stop")
	ctx, stop := context.WithCancelCause(within(t))
	ended := make(chan error, 1)
	go func() {
		_, err := p.Lease(ctx)
		ended <- err
	}()
	wantPulls(t, s, 2)
	stop(cause)
	if err := <-ended; !errors.Is(err, cause) {
		t.Fatal(err)
	}
	_ = p.Close()
	if n := l.accepted.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestF14F17StoppedWhileBothAreAskedHoldsNothing(t *testing.T) {
	t.Parallel()
	s, p, normal, priority := startBoth(t)
	for i := range 8 {
		ctx, stop := context.WithCancelCause(within(t))
		ended := make(chan jobs.Lease, 1)
		go func() {
			lease, _ := p.Lease(ctx)
			ended <- lease
		}()
		wantPulls(t, s, 2) // both are asked
		// Two answers on their way at the moment of the stop.
		var both sync.WaitGroup
		both.Go(func() { publish(t, normal, jobs.Job{ID: jobs.ID(fmt.Sprintf("n%d", i))}) })
		both.Go(func() { publish(t, priority, jobs.Job{ID: jobs.ID(fmt.Sprintf("p%d", i))}) })
		stop(errors.New("told to stop"))
		both.Wait()
		if lease := <-ended; lease.ID != "" { // the worker's part
			if err := p.Nack(within(t), lease, 0); err != nil {
				t.Error(err)
			}
		}
		_ = p.Close()
		for _, st := range s.Stats() {
			if st.Leased != 0 || st.Undelivered != 1 {
				t.Fatalf("round %d, %s: %d undelivered, %d still leased", i, st.Subscription, st.Undelivered, st.Leased)
			}
		}
		for _, src := range []worker.Source{p.Priority, p.Normal} { // an empty table for the next round
			lease, err := src.Lease(within(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := src.Ack(within(t), lease); err != nil {
				t.Fatal(err)
			}
		}
	}
}
