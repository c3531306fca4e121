package repair

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

const (
	// askEvery is the longest time between two questions whether a round is due.
	askEvery = 15 * time.Second
	// roundTime bounds a round; another worker may begin one then.
	roundTime = 2 * time.Minute
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
		mine, lost, err := r.Status.Look(call, roundTime, min(settleTime, every))
		cancel()
		if err == nil && mine { // without Redis there is nothing to repair
			r.round(ctx, every, lost)
		}
	}
}

func (r *Repair) round(ctx context.Context, every time.Duration, lost time.Time) {
	limited, cancel := context.WithTimeoutCause(ctx, roundTime, errors.New("the time of a round is over"))
	defer cancel()
	seen, err := r.Round(limited, Ask{Lost: lost, Age: every, Most: publishMost})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.Log.WarnContext(ctx, "cannot look at all jobs that Redis may have forgotten, trying again", "err", err)
	}
	if seen.Recorded+seen.Published+seen.Left > 0 {
		r.Log.InfoContext(ctx, "looked for jobs that Redis has forgotten", "recorded", seen.Recorded, "published", seen.Published, "left", seen.Left)
	}
	next := every
	if err != nil || seen.Left > 0 {
		// A loss stays on record: another round deals with the rest of it.
		next, lost = min(every, time.Minute), time.Time{}
	}
	call, end := context.WithTimeout(ctx, 5*time.Second)
	defer end()
	if err := r.Status.LookDone(call, next, lost); err != nil {
		r.Log.WarnContext(ctx, "cannot say when to look again", "err", err)
	}
}

// personWait is how long a job has shown no life before a person's repair publishes it.
const personWait = time.Minute

// Fsck is [status.Store.Fsck] and a round for a person, who knows that something is
// wrong: what waits for longer than a minute is published again. With repair unset
// both only look.
func (r *Repair) Fsck(ctx context.Context, repair bool) (status.Report, error) {
	report, err := r.Status.Fsck(ctx, repair)
	if err != nil {
		return report, err
	}
	with := *r
	with.Found = func(f status.Finding) { report.Add(f) }
	_, err = with.Round(ctx, Ask{Lost: time.Now().Add(-personWait), Dry: !repair})
	return report, err
}
