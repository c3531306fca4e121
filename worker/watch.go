package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Claims are the claims of all workers of a fleet. Workers search them for silent
// workers and hand back the leases of those, so that their jobs need not wait for the
// end of the lease. Its methods are those of [status.Store].
//
// [status.Store]: https://pkg.go.dev/github.com/batchfleet/batchfleet/status#Store
type Claims interface {
	Watch(ctx context.Context, ttl time.Duration) (mine bool, clock time.Time, free time.Duration, err error)
	Lapsed(ctx context.Context) (lapsed []jobs.Claim, next time.Duration, err error)
	Lapse(ctx context.Context, c jobs.Claim, handed bool) (bool, error)
}

// HandBacker is a [Source] that can end leases of other workers.
type HandBacker interface {
	// HandBack hands back deliveries of a queue: see [jobs.Raw]. A delivery that has
	// ended is no error. With an error that wraps [ErrRefused] a retry will not help.
	HandBack(ctx context.Context, queue string, acks []string) error
}

const (
	// searchEvery is the longest time between two searches.
	searchEvery = 3 * time.Second
	// maxSearchGap is the longest time between two searches with which neither this process
	// nor Redis counts as having stood still; a search has callTimeout for each of its
	// calls.
	maxSearchGap = 12 * time.Second
	// watchTTL is how long the lock for searching outlasts its worker, if that ended or
	// stands still. It may add as much to jobs.ClaimHold.
	watchTTL = 4500 * time.Millisecond
	// calmFor is how long nothing is handed back after something has stood still: claims
	// of running workers may have ended too, and the workers must renew them first.
	calmFor = 20 * time.Second
	// maxHandBack bounds one call of HandBack: Google's client sends 2500 ack ids at most,
	// from 512 KiB in a request.
	maxHandBack = 1000
)

// watch searches for the claims of silent workers.
type watch struct {
	claims  Claims
	source  HandBacker
	log     *slog.Logger
	metrics *Metrics

	replied time.Time // when Redis last replied; zero if it did not
	clock   time.Time // of Redis, then
	calm    time.Time // since when nothing has stood still
}

// run searches until ctx ends. All workers try to take the lock; its holder searches.
func (w *watch) run(ctx context.Context) {
	for {
		next, err := w.search(ctx)
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "cannot look for silent workers, trying again", "err", err)
		}
		if jobs.Sleep(ctx, next) != nil {
			return
		}
	}
}

// search searches once and returns how long to wait for the next time.
func (w *watch) search(ctx context.Context) (next time.Duration, err error) {
	next = searchEvery
	mine, free, err := w.mine(ctx)
	if err != nil || !mine || !w.isCalm() {
		if free > 0 {
			next = min(next, free+50*time.Millisecond)
		}
		return next, err
	}
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	lapsed, soonest, err := w.claims.Lapsed(call)
	cancel()
	if err != nil {
		w.replied = time.Time{}
		return next, err
	}
	// The claim of a dead worker ends sooner than the others.
	next = max(min(next, soonest+50*time.Millisecond), 250*time.Millisecond)
	if between(began, time.Now()) > maxSearchGap {
		w.replied = time.Time{}
		return next, nil
	}
	return next, w.handBack(ctx, lapsed)
}

func (w *watch) isCalm() bool { return !w.replied.IsZero() && time.Since(w.calm) >= calmFor }

// mine tries to take the lock, or gives it up while it is too early to hand anything
// back. It also notes whether this process or Redis stood still since the last call.
func (w *watch) mine(ctx context.Context) (mine bool, free time.Duration, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ttl := watchTTL
	if !w.isCalm() {
		ttl = 0 // release the lock: another worker may be ready
	}
	mine, clock, free, err := w.claims.Watch(call, ttl)
	if err != nil {
		w.replied = time.Time{}
		return false, 0, err
	}
	now := time.Now()
	if w.replied.IsZero() || between(w.replied, now) > maxSearchGap || clock.Sub(w.clock) > maxSearchGap {
		w.calm = now
	}
	w.replied, w.clock = now, clock
	return mine, free, nil
}

// between is the time from one moment to another by the clock, monotonic or wall,
// that gives more: the monotonic one stands still while a machine sleeps.
func between(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// handBack takes claims away from silent workers and hands back their leases. A claim
// that was prolonged in the meantime is left alone.
func (w *watch) handBack(ctx context.Context, lapsed []jobs.Claim) error {
	var errs []error
	queues := map[string][]jobs.Claim{}
	for _, c := range lapsed {
		taken, err := w.lapse(ctx, c, false)
		if err != nil {
			return err
		}
		if taken {
			queues[c.Queue] = append(queues[c.Queue], c)
		}
	}
	for queue, claims := range queues {
		for part := range slices.Chunk(claims, maxHandBack) {
			errs = append(errs, w.handBackOf(ctx, queue, part))
		}
	}
	return errors.Join(errs...)
}

func (w *watch) handBackOf(ctx context.Context, queue string, claims []jobs.Claim) error {
	acks := make([]string, len(claims))
	for i, c := range claims {
		acks[i] = c.Ack
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := w.source.HandBack(call, queue, acks)
	switch {
	case errors.Is(err, ErrRefused):
		w.log.WarnContext(ctx, "Pub/Sub refused to end the leases of silent workers; their jobs wait until the leases expire", "queue", queue, "leases", len(acks), "err", err)
	case err != nil:
		return err // and again at the next look
	default:
		w.metrics.returned.Add(float64(len(acks)))
	}
	for _, c := range claims {
		if err == nil {
			w.log.InfoContext(ctx, "worker is silent, its job is handed back", "job", c.Job, "queue", queue)
		}
		if _, err := w.lapse(ctx, c, true); err != nil {
			return err
		}
	}
	return nil
}

func (w *watch) lapse(ctx context.Context, c jobs.Claim, handed bool) (bool, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return w.claims.Lapse(call, c, handed)
}
