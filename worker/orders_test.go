package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// silently is a handler whose jobs take a minute, and report nothing.
var silently = handler{run: func(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	return jobs.Result{}, jobs.Sleep(ctx, time.Minute)
}}

// enlist makes the worker report itself to Redis.
func (r *rig) enlist() {
	r.worker.Registry = r.status.Member(status.Worker{Kinds: []jobs.Kind{"test"}, Slots: 1})
}

func (r *rig) pause(on bool) {
	r.t.Helper()
	var err error
	if on {
		err = r.status.Pause(r.t.Context(), "test")
	} else {
		_, err = r.status.Resume(r.t.Context(), "test")
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestD06JobOfAPausedKindWaitsAndCountsNoAttempt(t *testing.T) {
	inBubble(t, silently, func(t *testing.T, r *rig) {
		r.enlist()
		r.start()
		r.after(10 * time.Second)
		r.pause(true)
		r.after(10 * time.Second)
		r.wantStatus("a", "processing 0% Processing started...") // one that runs goes on
		r.after(time.Minute)
		r.wantStatus("a", "completed 100% Processing completed!")
		if _, err := r.status.Submit(t.Context(), jobs.Job{ID: "b", Kind: "test"}); err != nil {
			t.Fatal(err)
		}
		r.q.add("b")
		r.after(10 * time.Minute)
		r.wantStatus("b", `queued 0% kind "test" is paused`)
		if n := strings.Count(r.q.told(), "nack b"); n < 30 || n > 60 {
			t.Errorf("it was handed back %d times in 10 minutes, want once in 10 to 20 s", n)
		}
		if claim := r.rdb.Exists(t.Context(), "{job:b}:claim").Val(); claim != 0 {
			t.Error("it was claimed")
		}
		if err := r.worker.Ready(); err != nil {
			t.Errorf("the worker takes no other kinds: %v", err)
		}
		r.pause(false)
		r.after(30 * time.Second)
		r.wantStatus("b", "processing 0% Processing started...")
		if e, err := r.status.Get(t.Context(), "b"); err != nil || e.Detail.Attempt != 1 || e.Detail.Crashes != 0 {
			t.Errorf("%+v, %v; want its first attempt", e.Detail, err)
		}
	}, "a")
}

func TestD06CanceledJobOfAPausedKindLeavesTheQueue(t *testing.T) {
	inBubble(t, silently, func(t *testing.T, r *rig) {
		r.enlist()
		r.pause(true)
		r.start()
		r.after(10 * time.Second)
		r.q.add("a")
		r.after(10 * time.Second)
		r.wantStatus("a", `queued 0% kind "test" is paused`) // it came without a submission
		if _, err := r.status.Cancel(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		r.after(30 * time.Second)
		if told := r.q.told(); !strings.HasSuffix(told, "ack a") {
			t.Errorf("the source was told %q, want an ack", told)
		}
		r.wantStatus("a", "canceled 0% Canceled")
	})
}

func TestD06PausedKindsAreRememberedThoughRedisIsAway(t *testing.T) {
	inBubble(t, silently, func(t *testing.T, r *rig) {
		r.enlist()
		r.pause(true)
		r.start()
		r.after(10 * time.Second)
		r.redis.SetError("LOADING away")
		r.q.add("a")
		r.after(time.Minute)
		r.redis.SetError("")
		r.after(time.Minute)
		r.wantStatus("a", `queued 0% kind "test" is paused`)
	})
}

func TestD05OneWorkerDrainsAndResumes(t *testing.T) {
	inBubble(t, silently, func(t *testing.T, r *rig) {
		r.enlist()
		drain := func(on bool) {
			t.Helper()
			if err := r.status.DrainWorker(t.Context(), r.status.ID, on); err != nil {
				t.Fatal(err)
			}
		}
		state := func(want string) {
			t.Helper()
			if all, err := r.status.Workers(t.Context()); err != nil || len(all) != 1 || all[0].State() != want {
				t.Errorf("at %s workers are %+v, %v; want one that is %s", time.Since(r.q.start), all, err, want)
			}
		}
		if err := r.status.DrainWorker(t.Context(), "other", true); !errors.Is(err, status.ErrNoWorker) {
			t.Errorf("unknown worker: %v", err)
		}
		r.start()
		r.after(10 * time.Second)
		state("working")
		drain(true)
		r.after(10 * time.Second)
		state("draining")
		r.after(2 * time.Minute) // the job in hand has ended, and the worker has not
		r.wantStatus("a", "completed 100% Processing completed!")
		r.wantStatus("b", "nothing")
		state("draining")
		drain(false)
		r.after(10 * time.Second)
		state("working")
		r.wantStatus("b", "processing 0% Processing started...")
	}, "a", "b")
}

func TestD05DrainOfAWorkerEndsWithIt(t *testing.T) {
	inBubble(t, takes(time.Second), func(t *testing.T, r *rig) {
		r.enlist()
		r.start()
		r.after(10 * time.Second)
		if err := r.status.DrainWorker(t.Context(), r.status.ID, true); err != nil {
			t.Fatal(err)
		}
		r.stops(10 * time.Second)
		if n := r.rdb.Exists(context.Background(), "{fleet}:drained").Val(); n != 0 {
			t.Error("the order outlives its worker")
		}
	})
}
