package control_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// direct returns a worker beside the gateway that reaches its Redis and its storage.
func (r *rig) direct(name string) *control.Direct {
	r.t.Helper()
	d, err := control.NewDirect(r.queue, name)
	if err != nil {
		r.t.Fatal(err)
	}
	d.Kinds, d.Files, d.Log = func() map[jobs.Kind]control.Kind { return r.plane.Kinds }, r.plane.Files, r.plane.Log
	return d
}

// leaseKind leases a job of kind thumbnail.
func leaseKind(t *testing.T, d *control.Direct) gateway.LeaseOf {
	t.Helper()
	g, err := d.Lease(t.Context(), wire.LeaseRequest{Kind: "thumbnail", RequestID: "r3"})
	if err != nil || g == nil {
		t.Fatalf("leased %+v, %v", g, err)
	}
	return gateway.LeaseOf{Kind: "thumbnail", Job: jobs.ID(g.JobID), ID: g.LeaseID}
}

func refusedAs(t *testing.T, err error, status int, code wire.Code) {
	t.Helper()
	if e, ok := errors.AsType[*gateway.Error](err); !ok || e.Status != status || e.Code != code {
		t.Errorf("got %v, want %d %s", err, status, code)
	}
}

func TestK17AWorkerInsideReadsInputsAndStoresArtifactsItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, withFiles(t))
	ctx, d := t.Context(), r.direct("inside")
	content := strings.Repeat("0123456789", 20_000)
	in := decode[wire.InputResponse](t, r.do("POST", "/calc/thumbnail/inputs", content))
	id := decode[wire.SubmitResponse](t, r.do("POST", "/calc/thumbnail/jobs", map[string]any{"params": map[string]any{}, "input": in.Input})).JobID
	l := leaseKind(t, d)
	for _, from := range []int64{0, 150_000, 200_000} {
		body, sum, err := d.Input(ctx, l, 0, from)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		if string(got) != content[from:] || err != nil || sum != sumOf(content) {
			t.Errorf("from %d: %d bytes, %s, %v", from, len(got), sum, err)
		}
		_ = body.Close()
	}

	page := gateway.Upload{LeaseOf: l, Artifact: wire.Artifact{Name: "page.png", Size: 200_000, SHA256: sumOf(content), Type: "image/png"}}
	result := wire.ResultRequest{Kind: "thumbnail", LeaseID: l.ID, Result: []byte(`{"pages":1}`), Artifacts: []wire.Artifact{page.Artifact}}
	if got, err := d.Upload(ctx, page, 0, []byte(content[:100_000])); err != nil || got != (wire.UploadResponse{Offset: 100_000}) {
		t.Errorf("the first part: %+v, %v", got, err)
	}
	_, err := d.Result(ctx, id, result)
	refusedAs(t, err, 409, wire.Incomplete)
	_, err = d.Upload(ctx, page, 0, []byte(content[:100_000]))
	refusedAs(t, err, 409, wire.OffsetMismatch)
	_, err = d.Upload(ctx, page, 100_000, []byte(content))
	refusedAs(t, err, 400, wire.InvalidPayload)
	if got, err := d.Uploaded(ctx, page); err != nil || got != (wire.UploadResponse{Offset: 100_000}) {
		t.Errorf("half of it: %+v, %v", got, err)
	}
	for range 2 { // the second time it is there
		if got, err := d.Upload(ctx, page, 100_000, []byte(content[100_000:])); err != nil || !got.Complete {
			t.Errorf("the rest: %+v, %v", got, err)
		}
	}
	if got, err := d.Uploaded(ctx, page); err != nil || !got.Complete {
		t.Errorf("all of it: %+v, %v", got, err)
	}
	if _, err := d.Result(ctx, id, result); err != nil {
		t.Fatal(err)
	}
	if got := r.do("GET", "/calc/thumbnail/jobs/"+id+"/artifacts/page.png", nil); got.body != content {
		t.Errorf("the gateway sends %d bytes of the artifact, %d", len(got.body), got.status)
	}
	_, err = d.Uploaded(ctx, page)
	refusedAs(t, err, 409, wire.LeaseLost)
}

func TestK17AWorkerInsideIsToldWhatIsWrongWithAnArtifact(t *testing.T) {
	t.Parallel()
	r := newRig(t, withFiles(t))
	ctx, d := t.Context(), r.direct("inside")
	r.submitKind("thumbnail")
	l := leaseKind(t, d)
	for _, c := range []struct {
		name   string
		change func(*gateway.Upload)
		status int
		code   wire.Code
	}{
		{"a name that leads elsewhere", func(u *gateway.Upload) { u.Name = "../x" }, 400, wire.InvalidPayload},
		{"no SHA-256", func(u *gateway.Upload) { u.SHA256 = "" }, 400, wire.InvalidPayload},
		{"too large", func(u *gateway.Upload) { u.Size = 2 << 20 }, 413, wire.PayloadTooLarge},
		{"another content", func(u *gateway.Upload) { u.SHA256 = sumOf("y") }, 422, wire.DigestMismatch},
		{"another's lease", func(u *gateway.Upload) { u.ID = "other" }, 409, wire.LeaseLost},
	} {
		u := gateway.Upload{LeaseOf: l, Artifact: wire.Artifact{Name: "a", Size: 1, SHA256: sumOf("x")}}
		c.change(&u)
		t.Run(c.name, func(t *testing.T) {
			_, err := d.Upload(ctx, u, 0, []byte("x"))
			refusedAs(t, err, c.status, c.code)
		})
	}
	_, _, err := d.Input(ctx, l, 0, 0)
	refusedAs(t, err, 404, wire.InputNotFound)
	d.Files = nil
	_, err = d.Uploaded(ctx, gateway.Upload{LeaseOf: l})
	refusedAs(t, err, 503, wire.StorageDisabled)
}

func TestK17AFailureOfAWorkerInsideIsRetriedAsItsKindSays(t *testing.T) {
	t.Parallel()
	r := newRig(t, withFiles(t))
	r.plane.Kinds["thumbnail"] = control.Kind{Waits: []time.Duration{time.Hour}}
	d := r.direct("inside")
	id := r.submitKind("thumbnail")
	l := leaseKind(t, d)
	failed, err := d.Failed(t.Context(), id, wire.FailedRequest{Kind: "thumbnail", LeaseID: l.ID, ErrorCode: "PROGRAM_FAILED", ErrorMessage: "exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	if !failed.Requeued || failed.RetryCount != 1 {
		t.Errorf("answered %+v, want the job queued again", failed)
	}
	r.ahead.Store(int64(50 * time.Minute)) // later than a job of kind zpe would wait
	if g, err := d.Lease(t.Context(), wire.LeaseRequest{Kind: "thumbnail", RequestID: "r2"}); g != nil || err != nil {
		t.Errorf("leased %+v, %v too early", g, err)
	}
	r.ahead.Store(int64(2 * time.Hour))
	leaseKind(t, d)
}
