package delayed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/pipenet"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/operations/delayed"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
)

// rig is a fleet whose messages are only counted, in virtual time.
type rig struct {
	*testing.T
	rdb    *redis.Client
	status *status.Store

	mu        sync.Mutex
	published map[jobs.ID][]time.Duration // when, since the test began
	refuse    error
	began     time.Time
}

func bubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
			c, err := m.Dial()
			if err != nil {
				return nil, err
			}
			return pipenet.Roomy(c), nil
		}})
		defer rdb.Close()
		r := &rig{T: t, rdb: rdb, status: status.New(rdb), published: map[jobs.ID][]time.Duration{}, began: time.Now()}
		test(r)
	})
}

func (r *rig) publish(_ context.Context, job jobs.Job) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return "", r.refuse
	}
	r.published[job.ID] = append(r.published[job.ID], time.Since(r.began).Truncate(time.Second))
	return "1", nil
}

// submit submits a job that may start after delay.
func (r *rig) submit(id jobs.ID, delay time.Duration) {
	r.Helper()
	job := jobs.Job{ID: id, Kind: "mock", Submitted: time.Now(), NotBefore: time.Now().Add(delay)}
	if err := pubsub.Submit(r.Context(), r.status, r.publish, job, 0); err != nil {
		r.Fatal(err)
	}
}

// start starts a process that publishes; kill ends it as a crash does.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	p := &delayed.Promoter{Status: status.New(r.rdb), Publish: r.publish, Log: slog.New(slog.DiscardHandler)}
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// times returns when a job was published, within 2 s after it was due.
func (r *rig) times(id jobs.ID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.published[id])
}

func TestD35DelayedJobIsPublishedOnceWhenItIsDue(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		for range 3 { // processes
			defer r.start()()
		}
		r.submit("now", 0)
		r.submit("minute", time.Minute)
		r.submit("hour", time.Hour)
		r.submit("canceled", time.Minute)
		if got := r.times("now"); got != "[0s]" {
			r.Errorf("a job without a delay was published at %s", got)
		}
		if _, err := r.status.Cancel(r.Context(), "canceled"); err != nil {
			r.Error(err)
		}
		e, err := r.status.Get(r.Context(), "minute")
		if err != nil || e.State() != jobs.Queued || !e.Detail.Next.Equal(r.began.Add(time.Minute).Truncate(time.Millisecond)) {
			r.Errorf("a delayed job is %s until %v, %v", e.State(), e.Detail.Next, err)
		}
		time.Sleep(time.Minute - time.Second)
		if got := r.times("minute"); got != "[]" {
			r.Errorf("published %s, before it is due", got)
		}
		time.Sleep(65 * time.Minute)
		for id, due := range map[jobs.ID]time.Duration{"minute": time.Minute, "hour": time.Hour} {
			r.mu.Lock()
			got := r.published[id]
			r.mu.Unlock()
			if len(got) != 1 || got[0] < due || got[0] > due+3*time.Second {
				r.Errorf("job %s was published at %v, want once at %s", id, got, due)
			}
		}
		if got := r.times("canceled"); got != "[]" {
			r.Errorf("a job that was canceled was published at %s", got)
		}
		if n, err := r.status.Delayed(r.Context()); n != 0 || err != nil {
			r.Errorf("%d jobs are still delayed, %v", n, err)
		}
	})
}

func TestD35AnotherProcessPublishesWhenTheFirstOneDies(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		// It has taken the turn and never asks again, as one that was killed.
		killed := status.New(r.rdb)
		if got, err := killed.Promote(r.Context(), 15*time.Second, nil); err != nil || !got.Mine {
			r.Fatal(got, err)
		}
		r.submit("job", time.Second)
		defer r.start()()
		time.Sleep(10 * time.Second)
		if got := r.times("job"); got != "[]" {
			r.Errorf("published at %s, while another process was to do so", got)
		}
		time.Sleep(20 * time.Second)
		if got := r.times("job"); got == "[]" {
			r.Error("no process has taken over")
		}
	})
}

func TestD35JobThatCannotBePublishedIsTriedAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		defer r.start()()
		r.submit("job", time.Second)
		r.mu.Lock()
		r.refuse = errors.New("no Pub/Sub")
		r.mu.Unlock()
		time.Sleep(time.Minute)
		r.mu.Lock()
		r.refuse = nil
		r.mu.Unlock()
		time.Sleep(10 * time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		if got := r.published["job"]; len(got) != 1 {
			r.Errorf("published at %v, want once after a minute", got)
		}
	})
}

func TestD35SameSubmissionWithAKeyIsPublishedOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(r *rig) {
		defer r.start()()
		job := jobs.Job{ID: "key-a", Kind: "mock", Submitted: time.Now(), NotBefore: time.Now().Add(time.Minute)}
		for i := range 3 {
			queued, err := pubsub.SubmitOnce(r.Context(), r.status, r.publish, job, "request", 0)
			if err != nil || queued != (i == 0) {
				r.Errorf("submission %d: queued %v, %v", i, queued, err)
			}
		}
		time.Sleep(2 * time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		if got := r.published["key-a"]; len(got) != 1 || !slices.IsSorted(got) || got[0] < time.Minute {
			r.Errorf("published at %v, want once after a minute", got)
		}
	})
}
