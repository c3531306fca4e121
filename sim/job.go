package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor"
)

// job is one that a run submits.
type job struct {
	id       jobs.ID
	does     behavior
	pages    int
	pageTime time.Duration
	at       int           // at which page it does it
	submit   time.Duration // when it is submitted
	cancel   time.Duration // when it is canceled; 0 for never
	again    time.Duration // when its message is published once more; 0 for never

	kind     jobs.Kind
	failures int           // attempts that fail and are made again, before it does what it does
	backoff  time.Duration // until the next of them
}

// The kinds of jobs. Of the places, some do not have one of them.
const (
	common jobs.Kind = "mock"
	rare   jobs.Kind = "rare"
)

// behavior is what is special about a job.
type behavior uint8

const (
	ends  behavior = iota + 1 // with a result
	fails                     // always, by its own fault
	kills                     // the worker that runs it
)

// ownFault is why a job fails that always does.
const ownFault = "the document is about nothing"

// drawJobs returns the jobs of a seed.
func drawJobs(seed uint64, over time.Duration) []job {
	r, more := random(seed, "jobs"), random(seed, "kinds and retries")
	list := make([]job, 6+r.IntN(8))
	for i := range list {
		j := job{
			id: jobs.ID(fmt.Sprintf("job-%d", i)), does: ends, pages: 1 + r.IntN(40),
			pageTime: between(r, time.Second/2, 4*time.Second), submit: between(r, time.Second, over/2),
		}
		switch r.IntN(10) {
		case 0:
			j.does = fails
		case 1:
			j.does = kills
		}
		j.at = 1 + r.IntN(j.pages)
		j.cancel, j.again = maybe(r, 6, j.submit, over), maybe(r, 5, j.submit, over)
		j.kind = common
		if more.IntN(4) == 0 {
			j.kind = rare
		}
		if j.does != kills && more.IntN(3) == 0 {
			j.failures, j.backoff = 1+more.IntN(3), between(more, 0, 2*time.Minute)
			if more.IntN(3) == 0 { // for longer than Pub/Sub keeps a message back
				j.failures, j.backoff = 1, between(more, 10*time.Minute, 15*time.Minute)
			}
		}
		list[i] = j
	}
	return list
}

// maybe returns a time from low to high in one of so many cases, and 0 in the others.
func maybe(r *rand.Rand, one int, low, high time.Duration) time.Duration {
	hit, t := r.IntN(one) == 0, between(r, low, high)
	if !hit {
		return 0
	}
	return t
}

// engine reads simulated documents.
type engine struct {
	jobs map[jobs.ID]job
	kill func()
}

// Name implements [processor.Engine].
func (engine) Name() string { return "sim" }

// NeedsInput implements [processor.Engine].
func (engine) NeedsInput() bool { return false }

// Read implements [processor.Engine].
func (e engine) Read(ctx context.Context, j jobs.Job, _ string, from int, out processor.Sink) error {
	does := e.jobs[j.ID]
	fault, _ := ctx.Value(failing{}).(bool)
	fault = fault || does.does == fails
	if err := out.Open(does.pages, json.RawMessage(`{}`)); err != nil {
		return err
	}
	for n := from; n <= does.pages; n++ {
		if err := jobs.Sleep(ctx, does.pageTime); err != nil {
			return err
		}
		switch {
		case fault && n >= does.at:
			return errors.New(ownFault)
		case does.does == kills && n >= does.at:
			e.kill()
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if err := out.Page(processor.Record{Page: n, Words: 1, HasText: true}); err != nil {
			return err
		}
	}
	if does.does == kills { // all its pages are in a checkpoint
		e.kill()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if fault {
		return errors.New(ownFault)
	}
	return nil
}
