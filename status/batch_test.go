package status_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// roundTrips keeps how many scripts each pipeline of a client has, and stops the first.
type roundTrips struct {
	redis.Hook
	stopped  chan struct{} // closed when the first has been stopped
	released chan struct{} // closed to let it go

	mu      sync.Mutex
	scripts []int
}

func newRoundTrips() *roundTrips {
	return &roundTrips{stopped: make(chan struct{}), released: make(chan struct{})}
}

func (*roundTrips) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		n := 0
		for _, cmd := range cmds {
			if cmd.Name() == "evalsha" {
				n++
			}
		}
		r.mu.Lock()
		r.scripts = append(r.scripts, n)
		first := len(r.scripts) == 1
		r.mu.Unlock()
		if first {
			close(r.stopped)
			<-r.released
		}
		return next(ctx, cmds)
	}
}

// waits tells when somebody waits for its end.
type waits struct {
	context.Context
	told func()
}

func (w waits) Done() <-chan struct{} {
	w.told()
	return w.Context.Done()
}

// claimTogether claims the first of some jobs, and all others while that call is under way. Before
// it is let go, between is called. It returns what came of each.
func claimTogether(t *testing.T, rdb *redis.Client, ids []jobs.ID, between func()) (claims []jobs.Claim, errs []error, scripts []int) {
	t.Helper()
	trips := newRoundTrips()
	rdb.AddHook(trips)
	s := newStore(rdb, "w1")
	claims, errs = make([]jobs.Claim, len(ids)), make([]error, len(ids))
	var waiting, all sync.WaitGroup
	for i, id := range ids {
		waiting.Add(1)
		all.Go(func() {
			ctx := waits{t.Context(), sync.OnceFunc(waiting.Done)}
			claims[i], errs[i] = s.Claim(ctx, jobs.Job{ID: id, Kind: "mock"}, time.Minute, jobs.Claim{})
		})
		if i == 0 {
			<-trips.stopped
		}
	}
	waiting.Wait()
	between()
	close(trips.released)
	all.Wait()
	return claims, errs, trips.scripts
}

func TestK21ClaimsThatShareARoundTripAreIndependent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		between func(t *testing.T, rdb *redis.Client)
	}{
		{"the server has the scripts", func(*testing.T, *redis.Client) {}},
		{"the server has lost the scripts", func(t *testing.T, rdb *redis.Client) {
			t.Helper()
			if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, other *status.Store, rdb *redis.Client) {
				claim(t, other, "busy", time.Minute, jobs.Granted)
				ended := claim(t, other, "ended", time.Minute, jobs.Granted)
				if _, err := other.Finish(t.Context(), ended, jobs.Outcome{State: jobs.Failed, Reason: "bad"}); err != nil {
					t.Fatal(err)
				}
				if err := rdb.Set(t.Context(), "{job:broken}:claim", "no hash", 0).Err(); err != nil {
					t.Fatal(err)
				}
				ids := []jobs.ID{"first", "busy", "granted1", "broken", "ended", "granted2"}
				claims, errs, scripts := claimTogether(t, rdb, ids, func() { tt.between(t, rdb) })
				for i, want := range []jobs.Verdict{jobs.Granted, jobs.Busy, jobs.Granted, 0, jobs.Ended, jobs.Granted} {
					if broken := ids[i] == "broken"; claims[i].Verdict != want || errors.Is(errs[i], jobs.ErrUnavailable) != broken || !broken && errs[i] != nil {
						t.Errorf("claim of %s: %+v, %v; want verdict %d", ids[i], claims[i], errs[i], want)
					}
					if claims[i].Job != ids[i] {
						t.Errorf("claim of %s names job %s", ids[i], claims[i].Job)
					}
				}
				if claims[4].State != jobs.Failed || claims[4].Reason != "bad" || claims[1].Wait <= 0 {
					t.Errorf("answers are mixed up: %+v", claims)
				}
				if scripts[0] != 1 || slices.Max(scripts) != len(ids)-1 {
					t.Errorf("round trips had %v scripts, want 1, and later %d", scripts, len(ids)-1)
				}
				running := rdb.ZRange(t.Context(), "jobs:index:running", 0, -1).Val()
				slices.Sort(running)
				if want := []string{"busy", "first", "granted1", "granted2"}; !slices.Equal(running, want) {
					t.Errorf("running jobs are listed as %q, want %q", running, want)
				}
			})
		})
	}
}

func TestK21RedisThatEndsInTheMiddleIsUnavailableToEachJobAndCountsNoAttemptTwice(t *testing.T) {
	t.Parallel()
	srv := redistest.New(t)
	rdb := srv.Client()
	ids := []jobs.ID{"a", "b", "c", "d"}
	claims, errs, _ := claimTogether(t, rdb, ids, srv.Kill)
	for i, err := range errs {
		if !errors.Is(err, jobs.ErrUnavailable) || claims[i].Token == "" {
			t.Errorf("claim of %s: %+v, %v", ids[i], claims[i], err)
		}
	}
	srv.Start()
	s := newStore(rdb, "w1")
	for i, c := range claims {
		again, err := s.Claim(t.Context(), jobs.Job{ID: ids[i]}, time.Minute, c)
		if err != nil || again.Verdict != jobs.Granted || again.Attempt != 1 {
			t.Errorf("claim of %s again: %+v, %v", ids[i], again, err)
		}
		if state, err := s.Finish(t.Context(), again, jobs.Outcome{State: jobs.Succeeded}); err != nil || state != jobs.Succeeded {
			t.Errorf("finish of %s: %v, %v", ids[i], state, err)
		}
	}
}

func TestK21AnEndOfTheCallersContextIsNoVerdict(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client()
	trips := newRoundTrips()
	rdb.AddHook(trips)
	defer close(trips.released)
	s := newStore(rdb, "w1")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-trips.stopped
		cancel(fmt.Errorf("stop: %w", jobs.ErrLeaseLost))
	}()
	err := s.Report(ctx, jobs.Claim{Job: "a", Token: "t"}, time.Minute, nil, jobs.Lines{})
	if errors.Is(err, jobs.ErrLeaseLost) || !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("report: %v, want only that Redis has not answered", err)
	}
}
