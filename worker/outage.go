package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// Prober is a [Source] that can say at once whether it answers. Lease cannot: it waits for
// a job. A worker is not ready while such a source does not answer, and goes on asking it.
type Prober interface {
	Source
	// Probe asks the source for something small. It returns nil when the source has
	// answered, and why it cannot be asked for jobs otherwise.
	Probe(ctx context.Context) error
}

// outage makes the worker unready while its source does not answer. A worker whose source is no
// [Prober] is never unready for that: it would not know that the source answers again until
// a job comes.
type outage struct {
	source    Prober // nil for none
	readiness *readiness
	log       *slog.Logger
	begun     chan struct{} // wakes watch

	mu     sync.Mutex
	failed int           // calls of Lease so far that have failed
	resume chan struct{} // closed when it is worth asking again
	told   string        // the error that was logged last; empty once the source has answered
	toldAt time.Time
}

func newOutage(source Source, r *readiness, log *slog.Logger) *outage {
	prober, _ := source.(Prober)
	return &outage{source: prober, readiness: r, log: log, begun: make(chan struct{}, 1), resume: make(chan struct{})}
}

// outageAfter is how many calls of Lease in a row must fail: one is soon made again.
const outageAfter = 2

// repeatLog is after how long an error is logged again that has not changed.
const repeatLog = 10 * time.Minute

// isNews reports whether an error of Lease is to be logged: all slots that ask get the same one, again and again.
func (o *outage) isNews(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if text := err.Error(); text != o.told || time.Since(o.toldAt) >= repeatLog {
		o.told, o.toldAt = text, time.Now()
		return true
	}
	return false
}

// fails is told of a call of Lease that has failed, the nth in a row of its slot.
func (o *outage) fails(ctx context.Context, err error, nth int) {
	o.mu.Lock()
	o.failed++
	o.mu.Unlock()
	if o.source == nil || nth < outageAfter {
		return
	}
	if o.readiness.setSource(fmt.Errorf("cannot lease a job: %w", err)) {
		o.log.WarnContext(ctx, "not ready: the source does not answer, and is asked again")
	}
	select {
	case o.begun <- struct{}{}:
	default:
	}
}

// ends is told that the source has answered.
func (o *outage) ends(ctx context.Context) {
	o.mu.Lock()
	o.told = ""
	o.mu.Unlock()
	if o.readiness.setSource(nil) {
		o.log.InfoContext(ctx, "the source answers again")
	}
}

// pause waits until it is time to ask the source again: after d, or as soon as it answers.
func (o *outage) pause(ctx context.Context, d time.Duration) error {
	o.mu.Lock()
	resume := o.resume
	o.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-resume:
	}
	return nil
}

// failures returns how many calls of Lease have failed so far.
func (o *outage) failures() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// probePolicy is how soon a source that does not answer is probed again.
var probePolicy = retry.Policy{First: 500 * time.Millisecond, Max: 5 * time.Second}

// watch ends outages, until ctx ends.
func (o *outage) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.begun:
		}
		wait := probePolicy.Delays()
		for o.readiness.hasOutage() && jobs.Sleep(ctx, wait.Next()) == nil {
			o.probe(ctx)
		}
	}
}

// failTime is what calls of Lease get to fail after a probe was answered.
const failTime = time.Second

// probe ends the outage if the source answers, and calls of Lease that are made now do not fail:
// it may answer, and give no jobs.
func (o *outage) probe(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if o.source.Probe(call) != nil {
		return // the error of Lease says why
	}
	before := o.failures()
	o.mu.Lock()
	close(o.resume)
	o.resume = make(chan struct{})
	o.mu.Unlock()
	if jobs.Sleep(ctx, failTime) == nil && o.failures() == before {
		o.ends(ctx)
	}
}
