package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
	at      time.Time
	inHand  int
	unready string
}

func (r *registry) Pulse(_ context.Context, inHand int, _ bool, unready string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, pulse{time.Now(), inHand, unready})
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

func TestF21WorkerReportsWithinASecondThatItIsNotReadyAndWhy(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		said := &registry{}
		r.worker.Registry = said
		var full atomic.Value
		full.Store("")
		r.worker.Checks["storage"] = func(context.Context) error {
			if why := full.Load().(string); why != "" {
				return fmt.Errorf("%w: %s", jobs.ErrUnavailable, why)
			}
			return nil
		}
		want := func(want string) {
			t.Helper()
			if all, last := said.all(); last.unready != want || all[0].unready != "" {
				t.Errorf("at %s it has reported %q, and %q first, want %q", time.Since(r.q.start), last.unready, all[0].unready, want)
			}
		}
		r.start()
		r.after(2500 * time.Millisecond)
		want("")
		full.Store("no space left on device\nBearer abcdefghijkl \x1b[2J")
		r.after(6 * time.Second) // the checks are run every 5 s
		want(`storage: no space left on device Bearer [redacted] \x1b[2J`)
		full.Store(strings.Repeat("full ", 100))
		r.after(20 * time.Second) // they are run again after 15 s at most
		if _, last := said.all(); len(last.unready) > maxUnready || !strings.HasSuffix(last.unready, "…") {
			t.Errorf("it has reported %d bytes: %s", len(last.unready), last.unready)
		}
		full.Store("")
		r.after(20 * time.Second)
		want("")
	})
}
