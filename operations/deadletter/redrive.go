package deadletter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
)

// Redrive queues the jobs of dead letters again, one after the other. It is for one run.
type Redrive struct {
	Reader  *pubsub.DeadLetterReader // holds what is to be redriven
	Status  *status.Store
	Publish *pubsub.Publisher
	// Did is told what was done with each item. Its error ends the run.
	Did func(d Item, what string) error

	Dry       bool    // only tell Did what would be done
	Count     int     // how many at most; 0 for all
	Rate      float64 // jobs a second at most, from 0.01
	Reason    string  // only those whose reason contains this; empty for any
	StopAfter int     // stop once this many have failed again as before; 0 for never

	Tally

	sent   map[jobs.ID]string // redriven, not known to have ended: why each had failed
	same   int                // redriven, failed again for that reason
	looked time.Time
}

// Tally counts what was done with dead letters.
type Tally struct {
	Redriven int `json:"redriven"` // queued again
	Dropped  int `json:"dropped"`  // had succeeded since
	Left     int `json:"left"`     // run, were canceled since, or cannot be queued as they were
}

// SameError means that a run has stopped because too many jobs failed again as
// before.
type SameError struct {
	Left, Of int // jobs
	Failed   int // of the redriven ones, with the same error as before
}

// Error tells how many are left.
func (e *SameError) Error() string {
	return fmt.Sprintf("stopped with %d of %d left: %s failed again with the same error as before", e.Left, e.Of, jobs.Count(e.Failed, "redriven job"))
}

// Choose returns the items to redrive, oldest first, and hands back the rest. It
// chooses those named, or without names all that have a job. missing are the names
// without an item.
func (r *Redrive) Choose(ctx context.Context, all []Item, names []string) (chosen []Item, missing []string, err error) {
	if len(names) > 0 {
		chosen, missing = Named(all, names)
	} else {
		for _, d := range all {
			if d.Last().Job.ID != "" {
				chosen = append(chosen, d)
			}
		}
	}
	chosen = slices.DeleteFunc(chosen, func(d Item) bool { return !strings.Contains(d.Last().Reason, r.Reason) })
	slices.SortStableFunc(chosen, func(a, b Item) int { return a.Last().At.Compare(b.Last().At) })
	if r.Count > 0 {
		chosen = chosen[:min(r.Count, len(chosen))]
	}
	mine := map[string]bool{}
	for _, d := range chosen {
		mine[d.Name()] = true
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(d Item) bool { return mine[d.Name()] })
	return chosen, missing, r.Reader.HandBack(ctx, slices.Concat(rest...)...)
}

// Run redrives what Choose has returned. The error is a [SameError] when it has
// stopped by itself. It may always be run again, also after a kill: a job's dead
// letters are dropped last.
func (r *Redrive) Run(ctx context.Context, chosen []Item) error {
	r.sent = map[jobs.ID]string{}
	pace := time.NewTicker(time.Duration(float64(time.Second) / r.Rate))
	defer pace.Stop()
	for i, d := range chosen {
		if i > 0 && !r.Dry {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-pace.C:
			}
		}
		left := len(chosen) - i
		if again, err := r.again(ctx); err != nil {
			return fmt.Errorf("%d of %d left: %w", left, len(chosen), err)
		} else if again {
			return &SameError{left, len(chosen), r.same}
		}
		did, err := r.one(ctx, d)
		if did != "" {
			if err := r.Did(d, did); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("%d of %d left: %w", left, len(chosen), err)
		}
	}
	return nil
}

// Limits of one call.
const (
	redriveCall    = 5 * time.Second
	redrivePublish = 30 * time.Second // a message of 10 MB
)

// one redrives one item and returns what it did. The dead letters are dropped last:
// until then a redrive that is killed can be run again. It returns only errors that
// the next item would meet as well.
func (r *Redrive) one(ctx context.Context, d Item) (did string, err error) {
	l := d.Last()
	if l.Cut > 0 {
		r.Left++
		return fmt.Sprintf("left: only %d of its %d bytes were kept", len(l.Data), l.Cut), nil
	}
	if r.Dry {
		return "would be redriven", nil
	}
	did = "redriven"
	if l.Job.ID == "" {
		did = "redriven, though it names no job"
	} else {
		state, err := r.requeue(ctx, l.Job)
		switch {
		case err != nil:
			return "", err
		case state == jobs.Running, state == jobs.Canceled:
			r.Left++
			what := map[jobs.State]string{jobs.Running: "is running", jobs.Canceled: "was canceled since"}[state]
			return "left: it " + what, r.Reader.HandBack(ctx, d...)
		case state == jobs.Succeeded:
			r.Dropped++
			return "dropped: it has succeeded since", r.drop(ctx, d)
		}
		// A job may be Queued because an earlier redrive ended before it published. A
		// second message does no harm.
	}
	// An interrupt must not stop it from here on: what is queued must be published.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), redrivePublish)
	defer cancel()
	if err := r.Publish.Resend(call, l); err != nil {
		if l.Job.ID != "" {
			err = fmt.Errorf("%w (its status says queued; its dead letter is kept, redrive it again)", err)
		}
		return "", err
	}
	r.Redriven++
	if l.Job.ID != "" {
		r.sent[l.Job.ID] = l.Reason
	}
	return did, r.drop(ctx, d)
}

func (r *Redrive) requeue(ctx context.Context, job jobs.Job) (jobs.State, error) {
	call, cancel := context.WithTimeout(ctx, redriveCall)
	defer cancel()
	return r.Status.Requeue(call, job)
}

func (r *Redrive) drop(ctx context.Context, d Item) error {
	return r.Reader.Drop(context.WithoutCancel(ctx), d...)
}

// again checks at intervals how the redriven jobs ended. It reports whether too many
// have failed again as before.
func (r *Redrive) again(ctx context.Context) (bool, error) {
	if r.StopAfter == 0 || len(r.sent) == 0 || time.Since(r.looked) < time.Second/2 {
		return false, nil
	}
	r.looked = time.Now()
	ids := slices.Collect(maps.Keys(r.sent))
	call, cancel := context.WithTimeout(ctx, redriveCall)
	defer cancel()
	entries, err := r.Status.Entries(call, ids[:min(status.MaxList, len(ids))])
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !e.State().Terminal() {
			continue
		}
		before, clipped := strings.CutSuffix(r.sent[e.ID], " …") // a dead letter has less room than a status
		if e.State() == jobs.Failed && (e.ErrorMsg == before || clipped && strings.HasPrefix(e.ErrorMsg, before)) {
			r.same++
		}
		delete(r.sent, e.ID)
	}
	return r.same >= r.StopAfter, nil
}
