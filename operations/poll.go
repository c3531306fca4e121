package operations

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
)

// pollRetryFor is how long what is asked may be away while something is waited
// for: over a restart of Redis.
const pollRetryFor = time.Minute

// poll calls look until it says that what is waited for is so.
func poll(ctx context.Context, every time.Duration, r engine.Run, look func(context.Context) (bool, error)) error {
	var away time.Time // since when look fails
	for {
		call, cancel := bounded(ctx)
		done, err := look(call)
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && done:
			return nil
		case err == nil:
			away = time.Time{}
		case !errors.Is(err, jobs.ErrUnavailable):
			return err
		case away.IsZero():
			away = time.Now()
			r.Logf("asking again: %v", err)
		case time.Since(away) > pollRetryFor:
			return err
		}
		if err := jobs.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

// each calls do for the numbers from 0 to count-1, up to atOnce at once, and waits
// for all that it has called. After an error it calls do no more, and ends the
// context of those under way; the error is returned.
func each(parent context.Context, atOnce, count int, do func(ctx context.Context, i int) error) error {
	working, ctx := errgroup.WithContext(parent)
	working.SetLimit(atOnce)
	for i := range count {
		working.Go(func() error {
			if ctx.Err() == nil {
				return do(ctx, i)
			}
			return context.Cause(ctx)
		})
	}
	if working.Wait() != nil {
		return context.Cause(ctx) // the first error, or that of parent if it came before
	}
	return context.Cause(parent)
}
