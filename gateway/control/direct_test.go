package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestZ29DirectIsTheSameControlPlaneWithoutHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ctx := t.Context()
	direct, err := control.NewDirect(r.queue, "lab-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.NewDirect(r.queue, "a:b"); err == nil {
		t.Error("a:b is taken for a worker")
	}
	var plane gateway.ControlPlane = direct
	if g, err := plane.Lease(ctx, wire.LeaseRequest{WaitSeconds: 0.02}); g != nil || err != nil {
		t.Errorf("without a job: %+v, %v", g, err)
	}
	id := r.submit()
	g, err := plane.Lease(ctx, wire.LeaseRequest{Features: []string{"renew"}, RequestID: "r1"})
	if err != nil || g.JobID != id || string(g.Payload) != `{"x":1}` || g.LeaseTTLSeconds != 600 {
		t.Fatalf("leased %+v, %v", g, err)
	}
	if j := r.job(id); j.WorkerID != "lab-1" {
		t.Errorf("job: %+v", j)
	}
	b, err := plane.Heartbeat(ctx, id, wire.HeartbeatRequest{LeaseID: g.LeaseID, Progress: &wire.Progress{Done: 1, Total: 2}})
	if err != nil || b.LeaseTTLSeconds != 600 || b.CancelRequested {
		t.Errorf("heartbeat: %+v, %v", b, err)
	}
	text := "text"
	result := wire.ResultRequest{LeaseID: g.LeaseID, Result: []byte(`{"a":1e-17}`), SummaryText: &text, FreqsCSV: &text}
	refuses := func(err error, status int, code wire.Code) {
		t.Helper()
		e, ok := errors.AsType[*gateway.Error](err)
		if !ok || e.Status != status || e.Code != code {
			t.Errorf("got %v, want %d %s", err, status, code)
		}
	}
	for _, bad := range []wire.ResultRequest{
		{LeaseID: g.LeaseID, SummaryText: &text, FreqsCSV: &text},
		{LeaseID: g.LeaseID, Result: []byte(`{"a":1,"a":2}`), SummaryText: &text, FreqsCSV: &text},
		{LeaseID: g.LeaseID, Result: []byte(`[]`), SummaryText: &text, FreqsCSV: &text},
		{LeaseID: g.LeaseID, Result: []byte(`{}`), FreqsCSV: &text},
		{LeaseID: g.LeaseID, Result: []byte(`{}`), SummaryText: &text},
		{Result: []byte(`{}`), SummaryText: &text, FreqsCSV: &text},
	} {
		_, err := plane.Result(ctx, id, bad)
		refuses(err, 400, wire.InvalidPayload)
	}
	huge := strings.Repeat("x", 33<<20)
	_, err = plane.Result(ctx, id, wire.ResultRequest{LeaseID: g.LeaseID, Result: []byte(`{}`), SummaryText: &huge, FreqsCSV: &text})
	refuses(err, 413, wire.PayloadTooLarge)
	_, err = plane.Result(ctx, "index", result)
	refuses(err, 404, wire.JobNotFound)
	other, _ := control.NewDirect(r.queue, "lab-2")
	_, err = other.Result(ctx, id, result)
	refuses(err, 409, wire.LeaseLost)
	if !errors.Is(err, jobs.ErrLeaseLost) {
		t.Errorf("%v is not jobs.ErrLeaseLost", err)
	}
	for _, again := range []bool{false, true} {
		if a, err := plane.Result(ctx, id, result); err != nil || !a.OK || a.Idempotent != again {
			t.Errorf("result: %+v, %v", a, err)
		}
	}
	r.submit()
	g, err = plane.Lease(ctx, wire.LeaseRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plane.Failed(ctx, g.JobID, wire.FailedRequest{LeaseID: g.LeaseID, ErrorCode: "no", ErrorMessage: "m"})
	refuses(err, 400, wire.InvalidPayload)
	if f, err := plane.Failed(ctx, g.JobID, wire.FailedRequest{LeaseID: g.LeaseID, ErrorCode: "X", ErrorMessage: "m"}); err != nil || !f.Requeued {
		t.Errorf("failed: %+v, %v", f, err)
	}
	calledOff, cancel := context.WithCancel(ctx)
	defer cancel()
	r.rdb.AddHook(justAfter{named: "lab-1", do: cancel}) // it has looked for a job, and there is none
	if _, err := plane.Lease(calledOff, wire.LeaseRequest{WaitSeconds: 30}); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that is called off: %v", err)
	}
	r.redis.Kill()
	if _, err := plane.Heartbeat(ctx, id, wire.HeartbeatRequest{LeaseID: g.LeaseID}); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("without Redis: %v", err)
	}
}
