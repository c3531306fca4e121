package operations

import (
	"context"
	"errors"
	"sync"
	"time"

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
func each(ctx context.Context, atOnce, count int, do func(ctx context.Context, i int) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	numbers := make(chan int)
	var working sync.WaitGroup
	for range min(atOnce, count) {
		working.Go(func() {
			for i := range numbers {
				if err := do(ctx, i); err != nil {
					end(err) // the first one counts
				}
			}
		})
	}
	for i := 0; i < count && ctx.Err() == nil; i++ {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	working.Wait()
	return context.Cause(ctx)
}
