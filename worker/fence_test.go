package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestF24AttemptKnowsAtTheLastMomentWhetherItHoldsItsJob(t *testing.T) {
	const asked = 82 * time.Second
	at := func(d time.Duration, f func()) { time.AfterFunc(asked-d, f) }
	taken := func(r *rig) {
		c, err := r.status.Store.Claim(context.Background(), jobs.Job{ID: "j", Kind: "test"}, time.Minute, jobs.Claim{})
		if err != nil || c.Verdict != jobs.Granted {
			r.t.Errorf("claim of another worker: %+v, %v", c, err)
		}
	}
	for _, tt := range []struct {
		name    string
		prepare func(r *rig)
		want    error
	}{
		{"when all is well", func(*rig) {}, nil},
		{"when its lease has ended", func(r *rig) {
			r.worker.LeaseTTL, r.q.LeaseTTL = 60*time.Second, 60*time.Second
			r.q.locked(func() { r.q.deaf = true })
		}, jobs.ErrLeaseLost},
		{"when the worker is out of time", func(r *rig) { at(20*time.Second, func() { r.stop() }) }, jobs.ErrLeaseLost},
		{"when Redis was silent for a moment", func(r *rig) { at(5*time.Second, func() { r.status.cut(true) }) }, nil},
		{"when Redis is away", func(r *rig) { at(12*time.Second, func() { r.status.cut(true) }) }, jobs.ErrUnavailable},
		{"when Redis does not answer", func(r *rig) { at(12*time.Second, func() { r.status.freeze(true) }) }, jobs.ErrUnavailable},
		{"when another worker has claimed its job", func(r *rig) {
			at(70*time.Second, func() { r.status.cut(true) })
			at(time.Second, func() {
				taken(r)
				r.status.cut(false)
			})
		}, jobs.ErrLeaseLost},
		// Its lease is extended each 5 s, at 75 s as well. Its last report, at 74 s, claims
		// the job until 80 s.
		{"when another worker has claimed its job of a short lease while Redis is away", func(r *rig) {
			r.worker.LeaseTTL, r.q.LeaseTTL = 10*time.Second, 10*time.Second
			at(7500*time.Millisecond, func() { r.status.cut(true) })
			at(time.Second, func() { taken(r) })
		}, jobs.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said error
			done := make(chan struct{}, 1)
			h := handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
				time.Sleep(asked) // what comes next comes before the end of ctx is noticed
				said = jobs.Held(context.WithoutCancel(ctx))
				done <- struct{}{}
				return jobs.Result{}, said
			}}
			inBubble(t, h, func(t *testing.T, r *rig) {
				done = make(chan struct{}, 9) // of this bubble
				r.worker.Claims = r.status
				tt.prepare(r)
				r.start()
				<-done
				if !errors.Is(said, tt.want) || (said == nil) != (tt.want == nil) {
					t.Errorf("held: %v, want %v", said, tt.want)
				}
				r.stops(time.Minute)
				r.after(2 * asked) // handlers that were abandoned
			}, "j")
		})
	}
}

// unhasty is a Status that takes a second for a release.
type unhasty struct{ *flaky }

func (u unhasty) Release(ctx context.Context, c jobs.Claim, message string) error {
	if err := jobs.Sleep(ctx, time.Second); err != nil {
		return err
	}
	return u.flaky.Release(ctx, c, message)
}

func TestF24AbandonedHandlerStoresNothingWhileItsJobIsHandedBack(t *testing.T) {
	said := make(chan error, 1)
	h := handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		<-ctx.Done()
		time.Sleep(abandonDrainedAfter + time.Second/2)
		said <- jobs.Held(context.WithoutCancel(ctx))
		return jobs.Result{}, ctx.Err()
	}}
	inBubble(t, h, func(t *testing.T, r *rig) {
		said = make(chan error, 1) // of this bubble
		r.worker.Claims, r.worker.Status = r.status, unhasty{r.status}
		r.start()
		r.after(time.Second)
		r.stop()
		if err := <-said; !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("held: %v, want ErrLeaseLost", err)
		}
		r.wantTold("") // it is still being handed back
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		r.wantTold("nack j")
	}, "j")
}

// keeper is a handler that stores things before its job has ended.
type keeper struct {
	handler
	discarded []jobs.ID
}

func (k *keeper) Discard(_ context.Context, job jobs.Job) error {
	k.discarded = append(k.discarded, job.ID)
	return nil
}

func TestF24WhatDeadAttemptsHaveStoredIsDiscarded(t *testing.T) {
	ctx := context.Background()
	died := func(r *rig) { r.died("j") }
	own := errors.New("ink is out")
	for _, tt := range []struct {
		name    string
		end     error // of the job here
		prepare func(r *rig)
		want    string
	}{
		{"of a job that was canceled meanwhile", nil, func(r *rig) {
			died(r)
			if _, err := r.status.Cancel(ctx, "j"); err != nil {
				r.t.Fatal(err)
			}
		}, "j"},
		{"of a job that has killed its workers", nil, func(r *rig) { died(r); died(r); died(r) }, "j"},
		{"of a job that fails in the end", own, died, "j"},
		{"but not of one that succeeds", nil, died, ""},
		{"nor where there was none before", own, func(*rig) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &keeper{handler: fails(tt.end)}
			inBubble(t, k, func(t *testing.T, r *rig) {
				tt.prepare(r)
				r.start()
				r.after(10 * time.Second)
				r.wantTold("ack j")
				var got []string
				for _, id := range k.discarded {
					got = append(got, string(id))
				}
				if s := strings.Join(got, " "); s != tt.want {
					t.Errorf("discarded %q, want %q", s, tt.want)
				}
			}, "j")
		})
	}
}
