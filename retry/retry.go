// Package retry makes calls again that have failed, at growing intervals with a
// random part, so that a fleet does not return to a recovering service all at once.
//
// [Policy.Do] is the loop. A loop that has more to decide between two tries takes
// only the waits, from [Policy.Delays]. Intervals that a protocol fixes, such as
// those of heartbeats, are no business of this package.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy says when a call that has failed is made again.
type Policy struct {
	First time.Duration // the first wait, give or take Jitter
	Max   time.Duration // the longest wait, the random part included
	// Factor is by how much a wait is longer than the one before; 2 when 0.
	Factor float64
	// Jitter is by which part of it a wait may be longer or shorter than planned; 0.5 when 0.
	Jitter float64
	// For is how long tries may begin, from the first one on. When the next one would
	// begin later, the error of the last one is returned. 0 is as long as ctx lives.
	For time.Duration
	// Retrying is told why a call has failed, and how long it is until the next one.
	// It may be nil.
	Retrying func(err error, wait time.Duration)
}

// Do calls try until it returns nil or an error of [Permanent], which Do returns
// without that mark. When ctx ends, Do returns its cause: it does not end a try, which
// has to look at ctx itself.
func (p Policy) Do(ctx context.Context, try func() error) error {
	began := time.Now()
	for delays := p.Delays(); ; {
		err := try()
		if err == nil {
			return nil
		}
		if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok {
			return permanent.Err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait := delays.Next()
		if later, ok := errors.AsType[*after](err); ok {
			wait, err = max(wait, later.wait), later.error
		}
		if p.For > 0 && time.Since(began)+wait > p.For {
			return err
		}
		if p.Retrying != nil {
			p.Retrying(err, wait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// Permanent marks the error of a call that would fail again. It must be the outermost
// mark.
func Permanent(err error) error { return backoff.Permanent(err) }

// After marks the error of a call that is not to be made again before wait is over,
// as Retry-After says. It must be the outermost mark.
func After(err error, wait time.Duration) error { return &after{err, wait} }

type after struct {
	error
	wait time.Duration
}

func (a *after) Unwrap() error { return a.error }

// Delays are the waits of one loop, which must not share them with another.
type Delays struct{ waits backoff.ExponentialBackOff }

// Delays returns the waits of a loop that waits by itself. For and Retrying are not
// looked at.
func (p Policy) Delays() *Delays {
	factor := p.Factor
	if factor == 0 {
		factor = 2
	}
	jitter := p.Jitter
	if jitter == 0 {
		jitter = 0.5
	}
	longest := time.Duration(float64(p.Max) / (1 + jitter))
	return &Delays{backoff.ExponentialBackOff{
		InitialInterval: min(p.First, longest), MaxInterval: longest, Multiplier: factor, RandomizationFactor: jitter,
	}}
}

// Next returns the next wait.
func (d *Delays) Next() time.Duration { return d.waits.NextBackOff() }

// Reset starts again with the first wait.
func (d *Delays) Reset() { d.waits.Reset() }
