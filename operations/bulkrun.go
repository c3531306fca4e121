package operations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// bulkResult is the result: how many jobs were met, and what became of them.
type bulkResult struct {
	Matched     int  `json:"matched"`     // that were met; the sum of the next four
	Done        int  `json:"done"`        // canceled, asked to stop, or queued again
	Skipped     int  `json:"skipped"`     // had ended, had started again or were gone by then
	Refused     int  `json:"refused"`     // to which it cannot be done, which the log names
	Errors      int  `json:"errors"`      // for which the call has failed
	Stopping    int  `json:"stopping"`    // of Done: run until their worker has stopped them
	FailedAgain int  `json:"failedAgain"` // of Done: known to have failed once more
	More        bool `json:"more"`        // there are more than maxJobs
}

// words says what was done, where done says what that is.
func (n bulkResult) words(done string) string {
	some := listed(
		count{n.Done, done}, count{n.Stopping, "of them still stopping"}, count{n.FailedAgain, "of them failed again"},
		count{n.Skipped, "changed meanwhile"}, count{n.Refused, "refused"}, count{n.Errors, "with errors"},
	)
	if some == "" {
		return "none " + done
	}
	return some
}

// bulkRun is one run of a [bulk].
type bulkRun struct {
	*bulk
	engine.Run
	n       bulkResult
	inARow  int // errors since a call has succeeded
	pace    *time.Ticker
	said    time.Time
	watched *watched // nil if jobs that fail again do not count
}

// run acts on all jobs that match. It holds a page of their ids at a time.
func (o *bulk) run(ctx context.Context, r engine.Run) (string, error) {
	b := &bulkRun{bulk: o, Run: r, pace: time.NewTicker(time.Duration(float64(time.Second) / *o.Rate))}
	defer b.pace.Stop()
	if o.do.watch {
		b.watched = &watched{}
	}
	calls := func(ctx context.Context, make func(context.Context) error) error {
		return o.patiently(ctx, r, func() error { return once(ctx, make) })
	}
	err := o.chosen.walk(ctx, calls, func(ids []string) error { return b.page(ctx, ids) })
	r.Result(b.n)
	done := b.n.words(o.do.done)
	if err != nil {
		if _, ok := errors.AsType[*engine.Failure](err); ok {
			return "", err
		}
		return "", fmt.Errorf("after %s: %w", done, err)
	}
	if b.n.More {
		done += "; more match: maxJobs is " + fmt.Sprint(*o.MaxJobs)
	}
	return done, nil
}

func (b *bulkRun) page(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if b.n.Matched == int(*b.MaxJobs) {
			b.n.More = true
			return errEnough
		}
		if b.n.Matched > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-b.pace.C:
			}
		}
		if err := b.lookAgain(ctx); err != nil {
			return err
		}
		if err := b.one(ctx, id); err != nil {
			return err
		}
		if time.Since(b.said) >= sweepMessage {
			b.said = time.Now()
			b.Message(fmt.Sprintf("%d of %s: %s", b.n.Matched, b.found.number(), b.n.words(b.do.done)))
		}
	}
	return nil
}

// one acts on one job. It returns only errors that end the run.
func (b *bulkRun) one(ctx context.Context, id string) error {
	var job jobapi.Job
	err := b.patiently(ctx, b.Run, func() error {
		return once(ctx, func(ctx context.Context) (err error) {
			job, err = b.act(ctx, id)
			return err
		})
	})
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if isAway(err) {
		return err
	}
	b.n.Matched++
	refused, _ := errors.AsType[*jobapi.Refusal](err)
	switch {
	case err == nil:
		b.n.Done++
		b.inARow = 0
		if job.Status == jobs.Running && !b.do.watch {
			b.n.Stopping++
		}
		if b.watched != nil {
			b.watched.add(job)
		}
	case errors.Is(err, jobapi.ErrEnded), errors.Is(err, jobapi.ErrNotFailed), errors.Is(err, fs.ErrNotExist):
		b.n.Skipped++
	case refused != nil && refused.Code == jobapi.CodeConflict:
		b.n.Refused++
		b.Logf("job %s: %s", id, refused.Message)
	default:
		b.n.Errors++
		b.inARow++
		b.Logf("job %s: %v", id, err)
		if b.inARow >= int(*b.StopAfter) {
			return b.stopped(fmt.Errorf("%s in a row, the last: %w", jobs.Count(b.inARow, "error"), err))
		}
	}
	return nil
}

// stopped is the failure of a run that stops itself.
func (b *bulkRun) stopped(why error) error {
	return &engine.Failure{Code: "REPEATED_ERRORS", Err: fmt.Errorf("stopped after %s: %w", b.n.words(b.do.done), why), Details: map[string]any{
		"matched": b.n.Matched, "done": b.n.Done, "skipped": b.n.Skipped, "refused": b.n.Refused, "errors": b.n.Errors, "failedAgain": b.n.FailedAgain,
	}}
}

// patiently makes a call again while the store of the jobs is away, for retryFor.
func (o *bulk) patiently(ctx context.Context, r engine.Run, make func() error) error {
	told := false
	policy := retry.Policy{First: 200 * time.Millisecond, Max: 5 * time.Second, For: o.retryFor, Retrying: func(err error, _ time.Duration) {
		if !told {
			told = true
			r.Logf("asking again: %v", err)
		}
	}}
	return policy.Do(ctx, func() error {
		err := make()
		if err != nil && !isAway(err) {
			return retry.Permanent(err)
		}
		return err
	})
}

// isAway reports whether a call has failed because what keeps or gets the jobs does not answer.
func isAway(err error) bool {
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	return errors.Is(err, jobs.ErrUnavailable) || ok && refused.Status == http.StatusServiceUnavailable
}
