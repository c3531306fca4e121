package worker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// registry remembers what a worker reports of itself.
type registry struct {
	mu   sync.Mutex
	said []pulse
}

type pulse struct {
	at     time.Time
	inHand int
}

func (r *registry) Pulse(_ context.Context, inHand int, _ bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, pulse{time.Now(), inHand})
	return nil
}

func (*registry) Leave(context.Context) error { return nil }

// all returns what was reported, and the last of it.
func (r *registry) all() (said []pulse, last pulse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said, r.said[len(r.said)-1]
}

func TestF21WorkerReportsTheNumberOfItsJobsWithinASecond(t *testing.T) {
	inBubble(t, takes(20*time.Second), func(t *testing.T, r *rig) {
		said := &registry{}
		r.worker.Registry = said
		want := func(inHand, reports int) {
			t.Helper()
			if all, last := said.all(); last.inHand != inHand || len(all) > reports {
				t.Errorf("at %s it has reported %d jobs in %d reports, want %d in at most %d", time.Since(r.q.start), last.inHand, len(all), inHand, reports)
			}
		}
		r.start()
		r.after(10500 * time.Millisecond)
		want(0, 4) // every 5 s
		r.q.add("j")
		r.after(time.Second)
		want(1, 5)
		r.after(20 * time.Second)
		want(0, 11)
	})
}

func TestF21WorkerReportsItselfAtMostOnceASecond(t *testing.T) {
	short := handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		return jobs.Result{}, jobs.Sleep(ctx, 70*time.Millisecond)
	}}
	ids := make([]jobs.ID, 400)
	for i := range ids {
		ids[i] = jobs.ID(fmt.Sprintf("j%d", i))
	}
	inBubble(t, short, func(t *testing.T, r *rig) {
		said := &registry{}
		r.worker.Registry, r.worker.Pools = said, []Pool{{Slots: 3}}
		r.start()
		r.after(time.Minute)
		all, _ := said.all()
		for i := range all[1:] {
			if apart := all[i+1].at.Sub(all[i].at); apart < time.Second || apart > 6*time.Second {
				t.Errorf("reports %d and %d are %s apart, want 1 to 5 s", i, i+1, apart)
			}
		}
		if len(all) > 61 || len(all) < 12 {
			t.Errorf("%d reports in a minute, want 12 to 61", len(all))
		}
	}, ids...)
}
