package operations

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

func TestJ22PollOutlastsARestartOfWhatItAsks(t *testing.T) {
	away := fmt.Errorf("read job: %w", jobs.ErrUnavailable)
	own := errors.New("no such thing")
	tests := []struct {
		name string
		look func(since time.Duration) (bool, error)
		want error
		took time.Duration
	}{
		{"at once", func(time.Duration) (bool, error) { return true, nil }, nil, 0},
		{"after a while", func(d time.Duration) (bool, error) { return d >= 10*time.Second, nil }, nil, 10 * time.Second},
		{"away for less than a minute, twice", func(d time.Duration) (bool, error) {
			if d < 50*time.Second || d > time.Minute && d < 110*time.Second {
				return false, away
			}
			return d > 110*time.Second, nil
		}, nil, 111 * time.Second},
		{"away for more", func(time.Duration) (bool, error) { return false, away }, away, 61 * time.Second},
		{"a mistake", func(time.Duration) (bool, error) { return false, own }, own, 0},
		{"canceled", func(d time.Duration) (bool, error) { return false, nil }, jobs.ErrCanceled, 3 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				defer time.AfterFunc(3*time.Minute, func() { cancel(jobs.ErrCanceled) }).Stop()
				begun := time.Now()
				err := poll(ctx, time.Second, &ran{}, func(ctx context.Context) (bool, error) {
					if _, ok := ctx.Deadline(); !ok {
						t.Error("a look has no deadline")
					}
					return tt.look(time.Since(begun))
				})
				if !errors.Is(err, tt.want) || time.Since(begun) != tt.took {
					t.Errorf("%v after %s, want %v after %s", err, time.Since(begun), tt.want, tt.took)
				}
			})
		})
	}
}

func TestJEachStopsAfterAnErrorAndWaitsForAll(t *testing.T) {
	t.Parallel()
	var called, running atomic.Int32
	broken := errors.New("broken")
	err := each(t.Context(), 3, 1000, func(ctx context.Context, i int) error {
		called.Add(1)
		if n := running.Add(1); n > 3 {
			t.Errorf("%d at once", n)
		}
		defer running.Add(-1)
		if i == 5 {
			return broken
		}
		if i > 5 {
			<-ctx.Done()
		}
		return nil
	})
	if !errors.Is(err, broken) || called.Load() > 9 || running.Load() != 0 {
		t.Errorf("%v after %d calls, %d still run", err, called.Load(), running.Load())
	}
	called.Store(0)
	if err := each(t.Context(), 3, 10, func(context.Context, int) error { called.Add(1); return nil }); err != nil || called.Load() != 10 {
		t.Errorf("%v after %d calls", err, called.Load())
	}
}

func TestJ22PollIntervalIsInMilliseconds(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]time.Duration{0: time.Second, 200: 200 * time.Millisecond, 60_000: time.Minute} {
		var p pollInterval
		if ms > 0 {
			p.PollIntervalMs = &ms
		}
		if err := p.checkPoll(); err != nil || p.every() != want {
			t.Errorf("pollIntervalMs %d is %s, %v; want %s", ms, p.every(), err, want)
		}
	}
}
