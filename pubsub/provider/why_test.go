package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// trips counts what goes to Redis and back.
type trips struct{ n atomic.Int64 }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { t.n.Add(1); return next(ctx, cmd) }
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { t.n.Add(1); return next(ctx, cmds) }
}

// why returns the codes of the reasons, and the reasons, and checks what they cost.
func (r *fleetRig) why(id string) (codes string, all []jobapi.Reason) {
	r.Helper()
	before := r.trips.n.Load()
	all, err := r.fleet.Why(r.Context(), id)
	if err != nil || len(all) == 0 {
		r.Fatalf("why %s: %v, %v", id, all, err)
	}
	if n := r.trips.n.Load() - before; n > 3 {
		r.Errorf("why %s took %d round trips, want 3 at most", id, n)
	}
	for _, reason := range all {
		if reason.Message == "" {
			r.Errorf("%s has no message", reason.Code)
		}
		codes += " " + reason.Code
	}
	return strings.TrimSpace(codes), all
}

func (r *fleetRig) wantWhy(id, want string) []jobapi.Reason {
	r.Helper()
	got, all := r.why(id)
	if got != want {
		r.Errorf("job %s: why is %s, want %s: %+v", id, got, want, all)
	}
	return all
}

// worker reports a worker of kind pdf with two slots.
func (r *fleetRig) worker(name string, inHand int, draining bool, unready string) {
	r.Helper()
	st := status.New(r.rdb)
	st.ID, st.Worker = name, name
	if err := st.Member(status.Worker{Kinds: []jobs.Kind{"pdf"}, Slots: 2}).Pulse(r.Context(), inHand, draining, unready); err != nil {
		r.Fatal(err)
	}
}

func TestD30WhyOfAQueuedJob(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	long := jobs.Job{ID: "long", Kind: "pdf", Submitted: time.Now().Add(-time.Hour)}
	if _, err := r.st.Submit(ctx, long); err != nil {
		t.Fatal(err)
	}
	r.submit("a")
	r.wantWhy("a", "NO_WORKER QUEUED")
	r.worker("silent", 0, false, "")
	_, about, _ := strings.Cut(r.rdb.HGet(ctx, "{fleet}:workers", "silent").Val(), " ")
	r.rdb.HSet(ctx, "{fleet}:workers", "silent", fmt.Sprintf("%d %s", time.Now().Add(-20*time.Second).UnixMilli(), about))
	r.wantWhy("a", "NO_WORKER QUEUED")
	r.worker("w1", 2, false, "")
	r.wantWhy("a", "NO_SLOT QUEUED")
	r.worker("w1", 0, true, "")
	if all := r.wantWhy("a", "DRAINING QUEUED"); !strings.Contains(all[0].Message, "(1)") {
		t.Errorf("%+v", all)
	}
	r.worker("w1", 0, false, "storage: no space left on device")
	if all := r.wantWhy("a", "NO_WORKER QUEUED"); all[0].Worker != "w1" || !strings.Contains(all[0].Message, "no space left") {
		t.Errorf("%+v", all)
	}
	r.worker("w1", 1, false, "")
	all := r.wantWhy("a", "QUEUED")
	if all[0].Ahead == nil || *all[0].Ahead != 1 {
		t.Errorf("ahead: %+v, want the one from an hour ago", all[0])
	}
	// The status of the other has not changed for an hour.
	r.rdb.Set(ctx, "job:long", strings.Replace(r.rdb.Get(ctx, "job:long").Val(), `"updated_at":"2`, `"updated_at":"1`, 1), time.Hour)
	if all := r.wantWhy("long", "MESSAGE_MISSING QUEUED"); all[1].Ahead == nil || *all[1].Ahead != 0 {
		t.Errorf("%+v", all)
	}
	if err := r.st.MarkSent(ctx, "long"); err != nil { // somebody has just published it again
		t.Fatal(err)
	}
	r.wantWhy("long", "QUEUED")
	if _, err := r.st.SetDraining(ctx, true); err != nil {
		t.Fatal(err)
	}
	if all := r.wantWhy("a", "DRAINING QUEUED"); time.Since(all[0].Since.Time) > time.Minute {
		t.Errorf("%+v", all)
	}
	if err := r.st.Pause(ctx, "pdf"); err != nil {
		t.Fatal(err)
	}
	if all := r.wantWhy("a", "PAUSED DRAINING QUEUED"); time.Since(all[0].Since.Time) > time.Minute {
		t.Errorf("%+v", all)
	}
}

func TestD30WhyOfAJobThatWaitsForItsNextAttempt(t *testing.T) {
	r := newFleetRig(t)
	r.worker("w1", 0, false, "")
	c := r.claim(r.submit("a"))
	if _, err := r.st.Retry(t.Context(), c, jobs.Outcome{State: jobs.Failed, Reason: "exit 3", Retry: true, RetryAfter: time.Hour}); err != nil {
		t.Fatal(err)
	}
	all := r.wantWhy("a", "DELAYED QUEUED")
	if left := time.Until(all[0].Until.Time); left < 59*time.Minute || left > time.Hour || !strings.Contains(all[0].Message, "exit 3") {
		t.Errorf("%+v", all)
	}
}

func TestD30WhyOfAJobThatWasSubmittedForLater(t *testing.T) {
	r := newFleetRig(t)
	r.worker("w1", 0, false, "")
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	if _, err := r.st.Submit(t.Context(), jobs.Job{ID: "a", Kind: "pdf", NotBefore: later}); err != nil {
		t.Fatal(err)
	}
	if all := r.wantWhy("a", "DELAYED QUEUED"); !all[0].Until.Equal(later) || !strings.Contains(all[0].Message, "for later") {
		t.Errorf("%+v", all)
	}
}

func TestD30WhyOfAJobThatRunsOrHasEnded(t *testing.T) {
	r := newFleetRig(t)
	ctx := t.Context()
	c := r.claim(r.submit("a"))
	all := r.wantWhy("a", "LEASED")
	if left := time.Until(all[0].Until.Time); all[0].Worker != "w1" || left < 30*time.Second || left > time.Minute || all[0].Since.IsZero() {
		t.Errorf("%+v", all)
	}
	heard := time.Now().Add(-20 * time.Second).UnixMilli()
	r.rdb.HSet(ctx, "{job:a}:claim", "seen", heard)
	if all = r.wantWhy("a", "WORKER_SILENT"); all[0].Since.UnixMilli() != heard || all[0].Worker != "w1" {
		t.Errorf("%+v", all)
	}
	r.rdb.HSet(ctx, "{job:a}:claim", "until", time.Now().UnixMilli(), "seen", time.Now().UnixMilli())
	r.wantWhy("a", "WORKER_SILENT")
	r.finish(c, jobs.Outcome{State: jobs.Succeeded})
	if all = r.wantWhy("a", "ENDED"); !strings.Contains(all[0].Message, "succeeded") {
		t.Errorf("%+v", all)
	}
	for _, id := range []string{"none", "no id", ""} {
		if _, err := r.fleet.Why(ctx, id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("why %q: %v, want ErrNotExist", id, err)
		}
	}
}
