package queue_test

import (
	"errors"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status/redistest"
)

func TestZ10QueueIsFIFO(t *testing.T) {
	q := queue.New(redistest.New(t).Client(), queue.DefaultRules)
	ctx := t.Context()
	for _, id := range []jobs.ID{"a", "b", "c"} {
		if _, err := q.Submit(ctx, id, []byte(`{}`), ""); err != nil {
			t.Fatal(err)
		}
	}
	w := queue.Caller{Worker: "w1"}
	for _, want := range []jobs.ID{"a", "b", "c"} {
		g, _, err := q.Lease(ctx, w, queue.LeaseAsk{Renews: true})
		if err != nil || g.Job != want {
			t.Fatalf("leased %+v, %v; want job %s", g, err, want)
		}
		if _, _, err := q.Extend(ctx, w, g.Job, g.LeaseID, queue.Beat{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := q.Finish(ctx, queue.Caller{Worker: "w2"}, g.Job, g.LeaseID, queue.Result{JSON: "{}"}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("another worker's result: %v", err)
		}
		if want == "c" {
			f, err := q.Fail(ctx, w, g.Job, g.LeaseID, queue.Failure{Code: "X", Message: "y", Rerun: queue.Retry})
			if err != nil || !f.Requeued || f.Retries != 1 {
				t.Errorf("fail: %+v, %v", f, err)
			}
			continue
		}
		if _, _, err := q.Finish(ctx, w, g.Job, g.LeaseID, queue.Result{JSON: "{}"}); err != nil {
			t.Error(err)
		}
	}
	if g, due, err := q.Lease(ctx, w, queue.LeaseAsk{}); err != nil || g.Job != "" || due.IsZero() {
		t.Errorf("empty queue: %+v %v %v", g, due, err)
	}
	if _, err := q.Reap(ctx); err != nil {
		t.Error(err)
	}
	s, err := q.Stats(ctx)
	t.Logf("%+v %v", s, err)
	tok, _, err := q.Enroll(ctx, "l", 1e12)
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.Register(ctx, queue.Registration{EnrollToken: tok})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Register(ctx, queue.Registration{EnrollToken: tok}); !errors.Is(err, queue.ErrEnrollToken) {
		t.Error(err)
	}
	if w, err := q.Authorize(ctx, queue.Caller{TokenHash: queue.HashToken(r.Token)}); err != nil || w != r.Worker {
		t.Error(w, err)
	}
	if n, err := q.Revoke(ctx, r.Worker); n != 1 || err != nil {
		t.Error(n, err)
	}
	if _, err := q.Authorize(ctx, queue.Caller{TokenHash: queue.HashToken(r.Token)}); !errors.Is(err, queue.ErrTokenRevoked) {
		t.Error(err)
	}
}
