package control_test

import (
	"io"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// newCheckpointRig starts a gateway with one kind whose checkpoints have up to 1000 bytes, and one without any.
func newCheckpointRig(t *testing.T) *rig {
	t.Helper()
	files := withFiles(t)
	return newRig(t, func(r *rig) {
		files(r)
		r.plane.Kinds = map[jobs.Kind]control.Kind{"thumbnail": {MaxCheckpoint: 1000}, "wordcount": {}}
	})
}

func (a attempt) checkpoint(method, content string, more ...string) answer {
	a.t.Helper()
	var body any
	if method == "PUT" {
		body = content
	}
	return a.do(method, "/calc/thumbnail/compute/jobs/"+a.job+"/checkpoint", body, a.headers(sumOf(content), more...)...)
}

// keeps checks how many objects of checkpoints there are.
func (r *rig) keeps(want int) {
	r.t.Helper()
	n := 0
	err := r.plane.Files.Store.Walk(r.t.Context(), "gateway/checkpoints/", func(string, storage.Info, error) error {
		n++
		return nil
	})
	if n != want {
		r.t.Errorf("%d checkpoints are kept, %v; want %d", n, err, want)
	}
}

func TestK11ACheckpointGoesFromOneWorkerToAnother(t *testing.T) {
	r := newCheckpointRig(t)
	r.submitKind("thumbnail")
	first := r.worker().attempt()
	refused(t, first.checkpoint("GET", ""), 404, wire.CheckpointNotFound)
	for _, content := range []string{"state 1", "state 2", "state 2"} {
		if a := decode[wire.UploadResponse](t, first.checkpoint("PUT", content)); !a.Complete || a.Offset != 7 {
			t.Errorf("answered %+v", a)
		}
	}
	r.keeps(1)
	decode[wire.FailedResponse](t, first.reportOf("thumbnail", "failed", first.job, broken(first.lease, wire.FailWorkerShutdown)))
	refused(t, first.checkpoint("PUT", "too late"), 409, wire.LeaseLost)
	refused(t, first.checkpoint("GET", ""), 409, wire.LeaseLost)

	second := r.worker().attempt()
	if a := second.checkpoint("GET", ""); a.status != 200 || a.body != "state 2" || a.header.Get("X-Content-SHA256") != sumOf("state 2") {
		t.Errorf("the next worker got %d %q", a.status, a.body)
	}
	if a := second.checkpoint("GET", "", "Range", "bytes=5-"); a.status != 206 || a.body != " 2" {
		t.Errorf("the rest: %d %q", a.status, a.body)
	}
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 0 {
		t.Errorf("cleaned %d, %v", n, err)
	}
	if a := second.checkpoint("GET", ""); a.body != "state 2" {
		t.Errorf("after cleaning it is %d %q", a.status, a.body)
	}
	decode[wire.UploadResponse](t, second.checkpoint("PUT", "")) // none
	refused(t, second.checkpoint("GET", ""), 404, wire.CheckpointNotFound)
	r.keeps(0)

	decode[wire.UploadResponse](t, second.checkpoint("PUT", "state 3"))
	decode[wire.ReportResponse](t, second.finish())
	if n, err := control.Clean(t.Context(), r.plane); err != nil || n != 1 {
		t.Errorf("cleaned %d, %v after the job has ended", n, err)
	}
	r.keeps(0)
}

func TestK11CheckpointsThatAreRefused(t *testing.T) {
	r := newCheckpointRig(t)
	r.submitKind("thumbnail")
	a, other := r.worker().attempt(), r.worker()
	decode[wire.UploadResponse](t, a.checkpoint("PUT", "good"))
	path := "/calc/thumbnail/compute/jobs/" + a.job + "/checkpoint"
	refused(t, r.do("PUT", path, "x", a.headers(sumOf("y"))...), 422, wire.DigestMismatch)
	refused(t, r.do("PUT", path, "x", a.headers("z")...), 400, wire.InvalidPayload)
	refused(t, r.do("PUT", path, "x", append(bearer(other.token), "X-Lease-Id", a.lease, "X-Content-SHA256", sumOf("x"))...), 409, wire.LeaseLost)
	refused(t, a.checkpoint("PUT", strings.Repeat("x", 2000+1<<20+1)), 413, wire.PayloadTooLarge)
	if got := a.checkpoint("GET", ""); got.body != "good" {
		t.Errorf("it is %d %q", got.status, got.body)
	}
	r.keeps(1)
	r.submitKind("wordcount")
	g := other.leaseOf("/calc/wordcount/compute/jobs/lease")
	refused(t, r.do("PUT", "/calc/wordcount/compute/jobs/"+g.JobID+"/checkpoint", "x", append(bearer(other.token), "X-Lease-Id", g.LeaseID, "X-Content-SHA256", sumOf("x"))...), 413, wire.PayloadTooLarge)
	refused(t, r.do("GET", "/calc/zpe/compute/jobs/"+a.job+"/checkpoint", nil, a.headers("")...), 404, wire.NotFound)
}

func TestK11AWorkerInsideKeepsCheckpointsItself(t *testing.T) {
	t.Parallel()
	r := newCheckpointRig(t)
	r.submitKind("thumbnail")
	d := r.direct("beside")
	l := leaseKind(t, d)
	_, _, err := d.Checkpoint(t.Context(), l, 0)
	refusedAs(t, err, 404, wire.CheckpointNotFound)
	put := func(content string, sum string) error {
		return d.PutCheckpoint(t.Context(), l, wire.Artifact{Size: int64(len(content)), SHA256: sum}, strings.NewReader(content))
	}
	if err := put("state", sumOf("state")); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, put("x", sumOf("y")), 422, wire.DigestMismatch)
	refusedAs(t, put(strings.Repeat("x", 2<<20), sumOf("x")), 413, wire.PayloadTooLarge)
	for _, from := range []int64{0, 3} {
		content, sum, err := d.Checkpoint(t.Context(), l, from)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(content); string(text) != "state"[from:] || err != nil || sum != sumOf("state") {
			t.Errorf("from %d: %q, %s, %v", from, text, sum, err)
		}
		_ = content.Close()
	}
	l.ID = "other"
	refusedAs(t, put("late", sumOf("late")), 409, wire.LeaseLost)
	_, _, err = d.Checkpoint(t.Context(), gateway.LeaseOf{Kind: "thumbnail", Job: l.Job, ID: "other"}, 0)
	refusedAs(t, err, 409, wire.LeaseLost)
	r.keeps(1)
}
