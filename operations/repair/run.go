package repair

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

const (
	// askEvery is the longest time between two questions whether a round is due.
	askEvery = 15 * time.Second
	// silence bounds the time in which a round looks at nothing: then it ends, and
	// another worker may begin one. A round after a loss may take hours.
	silence = 2 * time.Minute
	// settleTime is what workers have after a loss to write what they hold.
	settleTime = 30 * time.Second
	// publishMost bounds what a round publishes. There is the next one.
	publishMost = 1000
)

// Run makes a round now and then until ctx ends: each time every has passed, and soon
// after Redis was restarted or has failed over. Of all workers that share a Redis one
// does so.
func (r *Repair) Run(ctx context.Context, every time.Duration) {
	for {
		pause := min(askEvery, every/4)
		if jobs.Sleep(ctx, pause/2+rand.N(pause)) != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		mine, lost, err := r.Status.Look(call, silence, min(settleTime, every))
		cancel()
		if err == nil && mine { // without Redis there is nothing to repair
			r.round(ctx, every, lost)
		}
	}
}

func (r *Repair) round(ctx context.Context, every time.Duration, lost time.Time) {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	reserved := time.Now()
	with := *r
	with.working = func() {
		watch.Reset(silence)
		if time.Since(reserved) < silence/4 {
			return
		}
		reserved = time.Now()
		r.schedule(limited, silence, lost, false)
	}
	seen, err := with.Round(limited, Options{Lost: lost, Age: every, Most: publishMost})
	if ctx.Err() != nil {
		return
	}
	if limited.Err() != nil {
		err = errSilent
	}
	if err != nil {
		r.Log.WarnContext(ctx, "cannot look at all jobs that Redis may have forgotten, trying again", "err", err)
	}
	if seen != (Seen{}) {
		r.Log.InfoContext(ctx, "looked for jobs that Redis has forgotten",
			"recorded", seen.Recorded, "published", seen.Published, "left", seen.Left, "failed", seen.Failed)
	}
	next := every
	if err != nil || seen.Left > 0 {
		next = min(every, time.Minute) // soon the rest of the loss; what could not be repaired may wait
	}
	r.schedule(ctx, next, lost, err == nil && seen.Left+seen.Failed == 0)
}

// errSilent ends a round.
var errSilent = errors.New("storage or Redis did not answer for " + silence.String())

// schedule says when the next round is due.
func (r *Repair) schedule(ctx context.Context, next time.Duration, lost time.Time, done bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := r.Status.LookDone(ctx, next, lost, done); err != nil {
		r.Log.WarnContext(ctx, "cannot schedule the next repair", "err", err)
	}
}

// personWait is how long a job has shown no life before a person's repair publishes it.
const personWait = time.Minute

// Fsck is [status.Store.Fsck] and a round for a person, who knows that something is
// wrong: what waits for longer than a minute is published again. With repair unset
// both only look.
func (r *Repair) Fsck(ctx context.Context, repair bool) (redisdb.Audit, error) {
	st := *r.Status
	st.Worker = "fsck"
	report, err := st.Fsck(ctx, repair)
	if err != nil {
		return report, err
	}
	with := *r
	with.Status, with.Log = &st, slog.New(slog.DiscardHandler) // the report says it
	with.Found = func(f redisdb.Finding) { report.Add(f) }
	_, err = with.Round(ctx, Options{Lost: time.Now().Add(-personWait), Dry: !repair})
	return report, err
}
