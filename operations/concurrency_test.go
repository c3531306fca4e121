package operations

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/storage"
)

// stuck is a Redis whose calls end with their context, and a storage, too.
type stuck struct {
	storage.Store
	inside atomic.Int64 // calls that have not returned
}

func (s *stuck) call(ctx context.Context) error {
	s.inside.Add(1)
	defer s.inside.Add(-1)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *stuck) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s *stuck) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error { return s.call(ctx) }
}

func (s *stuck) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, _ []redis.Cmder) error { return s.call(ctx) }
}

func (s *stuck) Stat(ctx context.Context, _ string) (storage.Info, error) {
	return storage.Info{}, s.call(ctx)
}

// TestJ20ABatchHasNoMoreCallsAtOnceThanItMay counts them when none returns.
func TestJ20ABatchHasNoMoreCallsAtOnceThanItMay(t *testing.T) {
	r := newRig(t)
	s := &stuck{}
	r.rdb.AddHook(s)
	r.Storage = s
	list := `["a"` + strings.Repeat(`,"a"`, 19) + `]`
	for body, want := range map[string]int64{`{"objects":` + list + `,"ratePerSecond":1000}`: 4, `{"objects":` + list + `,"ratePerSecond":1000,"concurrency":3}`: 3} {
		for _, step := range r.good("submit-batch", body).Steps()[:2] {
			synctest.Test(t, func(t *testing.T) { wantInside(t, s, step, want) })
		}
	}
}

func wantInside(t *testing.T, s *stuck, step engine.Step, want int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := step.Run(ctx, &ran{})
		done <- err
	}()
	<-time.After(callTimeout / 2) // for all that the rate allows
	synctest.Wait()
	if n := s.inside.Load(); n != want {
		t.Errorf("%s: %d calls at once, want %d", step.Name, n, want)
	}
	cancel()
	if err := <-done; err == nil {
		t.Errorf("%s has succeeded", step.Name)
	}
}
