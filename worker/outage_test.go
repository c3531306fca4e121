package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/jobs"
)

// probed is a queue that can say at once whether it answers.
type probed struct {
	*queue
	probe func() error
}

func (p probed) Probe(context.Context) error { return p.probe() }

// probed makes the rig's queue one that can be probed, as its calls of Lease are answered.
func (r *rig) probed() {
	r.worker.Source = probed{r.q, func() error {
		r.q.mu.Lock()
		defer r.q.mu.Unlock()
		return r.q.down
	}}
}

var errNoPubSub = fmt.Errorf("pull: %w: cannot reach Pub/Sub: connection refused", jobs.ErrUnavailable)

// away cuts the source off, and lets the slot, which waits in it, notice that.
func (r *rig) away(err error) {
	r.q.locked(func() { r.q.down = err })
	r.q.add("wakes")
}

func TestF15WorkerIsNotReadyWhileItsSourceDoesNotAnswerAndGoesOnAsking(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		said := &registry{}
		r.worker.Registry = said
		r.probed()
		r.start()
		r.after(10 * time.Second)
		r.wantGauges(1, 0)

		r.away(errNoPubSub)
		r.after(4 * time.Second) // the job takes 1 s, the second call comes after 0.75 s at most
		if err := r.worker.Ready(); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("ready: %v, want why the source cannot be asked", err)
		}
		r.wantGauges(0, 0)
		if _, last := said.all(); last.unready != "cannot lease a job: pull: cannot reach Pub/Sub: connection refused" {
			t.Errorf("it has reported %q", last.unready)
		}
		asked := testutil.ToFloat64(r.worker.Metrics.leaseErrors)
		r.after(5 * time.Minute)
		if n := testutil.ToFloat64(r.worker.Metrics.leaseErrors) - asked; n < 5 {
			t.Errorf("it has asked %v times in 5 minutes, want it to go on", n)
		}
		if n := strings.Count(r.log.String(), "not ready"); n != 1 {
			t.Errorf("the log says %d times that it is not ready, want once:\n%s", n, r.log)
		}

		r.q.locked(func() { r.q.down = nil })
		r.after(8 * time.Second) // it is probed every 5 s, and given a second; no job comes
		if err := r.worker.Ready(); err != nil {
			t.Errorf("ready: %v after the source is back, want nil", err)
		}
		r.wantGauges(1, 0)
		r.q.add("j")
		r.after(2 * time.Second)
		r.wantTold("ack wakes, ack j")
		if _, last := said.all(); last.unready != "" {
			t.Errorf("it has reported %q, want that it is ready", last.unready)
		}
	})
}

func TestF15LeaseErrorIsLoggedOnceForAllSlots(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		r.worker.Pools = []Pool{{Slots: 5}}
		r.probed()
		r.start()
		logged := func(when string, want int) {
			t.Helper()
			if n := strings.Count(r.log.String(), `msg="cannot lease a job"`); n != want {
				t.Errorf("%s: the error is logged %d times, want %d:\n%s", when, n, want, r.log)
			}
		}
		away := func(err error) {
			r.q.locked(func() { r.q.down = err })
			for n := range 5 { // each slot waits in the source
				r.q.add(jobs.ID(fmt.Sprint("wakes", n)))
			}
		}
		r.after(10 * time.Second)
		away(errNoPubSub)
		r.after(9 * time.Minute)
		logged("while it is away", 1)
		r.after(2 * time.Minute)
		logged("after 10 minutes", 2)
		r.q.locked(func() { r.q.down = errors.New("no such host") })
		r.after(time.Minute)
		logged("after a change", 3)
		r.q.locked(func() { r.q.down = nil })
		r.after(time.Minute)
		away(errors.New("no such host"))
		r.after(time.Minute)
		logged("when it is away once more", 4)
	})
}

func TestF15OneFailedCallDoesNotMakeAWorkerUnready(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		r.probed()
		r.start()
		r.after(10 * time.Second)
		r.away(errNoPubSub)
		r.after(1100 * time.Millisecond) // the first call has failed, the second comes after 0.25 s at least
		r.q.locked(func() { r.q.down = nil })
		r.after(time.Minute)
		if n := testutil.ToFloat64(r.worker.Metrics.leaseErrors); n != 1 || strings.Contains(r.log.String(), "not ready") {
			t.Errorf("%v calls have failed, want 1 and a worker that stays ready:\n%s", n, r.log)
		}
	})
}

func TestF15SourceThatAnswersAndGivesNoJobsKeepsTheWorkerUnready(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		r.worker.Source = probed{r.q, func() error { return nil }}
		r.start()
		r.after(10 * time.Second)
		r.away(errors.New("may look, and may not pull"))
		r.after(4 * time.Second)
		for range 600 {
			if r.worker.Ready() == nil {
				t.Fatalf("ready at %s\n%s", time.Since(r.q.start), r.log)
			}
			r.after(time.Second / 2)
		}
		r.q.locked(func() { r.q.down = nil })
		r.after(8 * time.Second)
		if err := r.worker.Ready(); err != nil {
			t.Errorf("ready: %v, want nil", err)
		}
	})
}

func TestF15TroubleOfTheSourceAndOfTheChecksAreBothTold(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		r.probed()
		r.worker.Checks["redis"] = r.asked()
		r.start()
		r.after(10 * time.Second)
		r.away(errNoPubSub)
		r.after(4 * time.Second)
		r.status.cut(true)
		r.after(6 * time.Second)
		if err := r.worker.Ready(); err == nil || !strings.Contains(err.Error(), "redis is away") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("ready: %v, want both causes", err)
		}
		r.status.cut(false)
		r.after(20 * time.Second)
		r.drain(true)
		r.after(6 * time.Second)
		if err := r.worker.Ready(); !errors.Is(err, ErrDraining) {
			t.Errorf("ready: %v, want that it drains", err)
		}
		r.wantGauges(0, 1)
		r.drain(false)
		r.q.locked(func() { r.q.down = nil })
		r.after(20 * time.Second)
		r.wantGauges(1, 0)
	})
}
