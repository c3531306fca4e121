package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/deadletter"
	"github.com/batchfleet/batchfleet/pubsub"
)

// redrive queues dead jobs again, as the command dlq redrive does.
type redrive struct {
	jobapi.Options
	Count     *int64   `json:"count"`
	Reason    string   `json:"reason"`
	Rate      *float64 `json:"ratePerSecond"`
	StopAfter *int64   `json:"stopAfter"`
	d         Deps
	timeout   time.Duration // collectTimeout; tests have more

	reader *pubsub.DeadLetterReader // holds the chosen dead letters between the steps
	run    deadletter.Redrive
	chosen []deadletter.Item
}

// collectTimeout is how long collect waits for one more dead letter before it takes
// those it has for all.
const collectTimeout = 3 * time.Second

// maxReason is the longest reason that a dead letter has.
const maxReason = 1024

// Check implements [engine.Request].
func (o *redrive) Check() error {
	err := cmp.Or(
		within("count", &o.Count, 0, 0, pubsub.MaxDeadLetters),
		within("ratePerSecond", &o.Rate, 10, 0.01, 1000),
		within("stopAfter", &o.StopAfter, 3, 0, pubsub.MaxDeadLetters),
	)
	switch {
	case err != nil:
		return err
	case len(o.Reason) > maxReason:
		return &jobapi.FieldError{Field: "reason", Problem: fmt.Sprintf("must be at most %d bytes long, not %d", maxReason, len(o.Reason))}
	case o.d.Status == nil || o.d.Publish == nil:
		return notSetUp(noPubSub)
	case o.d.DeadLetters == nil:
		return notSetUp(noDead)
	}
	return nil
}

// Echo implements [engine.Request].
func (o *redrive) Echo() any {
	return struct {
		jobapi.Options
		Count         *int64   `json:"count"`
		ReasonBytes   int      `json:"reasonBytes"`
		RatePerSecond *float64 `json:"ratePerSecond"`
		StopAfter     *int64   `json:"stopAfter"`
	}{o.Options, o.Count, len(o.Reason), o.Rate, o.StopAfter}
}

// Steps implements [engine.Request].
func (o *redrive) Steps() []engine.Step {
	return []engine.Step{
		{Name: "collect", Description: "take the dead letters and choose the jobs", Run: o.collect},
		{Name: "redrive", Description: "queue the jobs again, oldest first, and drop their dead letters", Run: o.redrive},
	}
}

// collect leaves the chosen dead letters in the reader. If the next step does not run,
// they return to the subscription after half a minute.
func (o *redrive) collect(ctx context.Context, r engine.Run) (message string, err error) {
	o.reader = o.d.DeadLetters.Fresh()
	o.run = deadletter.Redrive{
		Reader: o.reader, Status: o.d.Status, Publish: o.d.Publish,
		Count: int(*o.Count), Rate: *o.Rate, Reason: o.Reason, StopAfter: int(*o.StopAfter),
	}
	defer func() {
		if err != nil {
			deadletter.HandBack(ctx, o.reader, r.Logf)
		}
	}()
	total := 0
	err = deadletter.Keeping(ctx, o.reader, func() error {
		all, err := deadletter.Collect(ctx, o.reader, o.timeout, r.Logf)
		if err != nil {
			return err
		}
		total = len(all)
		o.chosen, _, err = o.run.Choose(ctx, all, nil)
		return err
	})
	if err != nil {
		return "", err
	}
	if total == 0 {
		return "there are no dead letters, or somebody else holds them just now", nil
	}
	return fmt.Sprintf("%d of %s chosen", len(o.chosen), jobs.Count(total, "dead letter")), nil
}

func (o *redrive) redrive(ctx context.Context, r engine.Run) (string, error) {
	defer deadletter.HandBack(ctx, o.reader, r.Logf)
	done := 0
	o.run.Did = func(d deadletter.Item, what string) error {
		done++
		r.Logf("job %s: %s", d.Name(), what)
		r.Message(fmt.Sprintf("%d of %s looked at", done, jobs.Count(len(o.chosen), "job")))
		return nil
	}
	err := deadletter.Keeping(ctx, o.reader, func() error { return o.run.Run(ctx, o.chosen) })
	if same, ok := errors.AsType[*deadletter.SameError](err); ok {
		return "", &engine.Failure{Code: "SAME_ERROR", Details: map[string]any{
			"redriven": o.run.Redriven, "dropped": o.run.Dropped, "left": same.Left, "failedAgain": same.Failed,
		}, Err: err}
	}
	if err != nil {
		return "", err
	}
	r.Result(o.run.Tally)
	said := []string{fmt.Sprintf("%d redriven", o.run.Redriven)}
	if o.run.Dropped > 0 {
		said = append(said, fmt.Sprintf("%d dropped that had succeeded since", o.run.Dropped))
	}
	if o.run.Left > 0 {
		said = append(said, fmt.Sprintf("%d left, for which the log says why", o.run.Left))
	}
	return strings.Join(said, ", "), nil
}
