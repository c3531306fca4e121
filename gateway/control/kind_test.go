package control_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// newKindRig starts a gateway with two kinds beside zpe. The first has one retry.
func newKindRig(tb testing.TB, change func(*rig)) *rig {
	tb.Helper()
	return newRig(tb, func(r *rig) {
		r.plane.Kinds = map[jobs.Kind]control.Kind{"thumbnail": {Waits: []time.Duration{time.Second}}, "wordcount": {}}
		if change != nil {
			change(r)
		}
	})
}

func (r *rig) submitKind(kind string) string {
	r.t.Helper()
	return decode[wire.SubmitResponse](r.t, r.do("POST", "/calc/"+kind+"/jobs", `{"params":{}}`)).JobID
}

func (w worker) leaseOf(path string, kinds ...string) wire.LeaseResponse {
	w.t.Helper()
	return decode[wire.LeaseResponse](w.t, w.post(path, wire.LeaseRequest{Features: []string{"renew"}, Kinds: kinds}))
}

func (w worker) reportOf(kind, what, job string, body any) answer {
	w.t.Helper()
	return w.post("/calc/"+kind+"/compute/jobs/"+job+"/"+what, body)
}

func TestK17AJobOfAnyKindGoesThroughTheRoutesOfItsKind(t *testing.T) {
	r := newKindRig(t, nil)
	w := r.worker()
	id := r.submitKind("thumbnail")
	if got := w.post(wire.PathLease, nil).status; got != http.StatusNoContent {
		t.Errorf("a worker that names no kinds was answered %d, want 204", got)
	}
	g := w.leaseOf(wire.PathLease, "zpe", "thumbnail")
	if g.JobID != id || g.Kind != "thumbnail" {
		t.Fatalf("leased %+v, want job %s", g, id)
	}
	beat := map[string]any{"lease_id": g.LeaseID, "progress": map[string]int{"done": 1, "total": 2}}
	for _, kind := range []string{"zpe", "wordcount"} {
		refused(t, w.reportOf(kind, "heartbeat", id, beat), 404, wire.JobNotFound)
		refused(t, w.reportOf(kind, "result", id, done(g.LeaseID)), 404, wire.JobNotFound)
		refused(t, w.reportOf(kind, "failed", id, broken(g.LeaseID, "X")), 404, wire.JobNotFound)
		refused(t, r.do("GET", "/calc/"+kind+"/jobs/"+id, nil), 404, wire.JobNotFound)
		refused(t, r.do("GET", "/calc/"+kind+"/jobs/"+id+"/result", nil), 404, wire.JobNotFound)
		refused(t, r.do("POST", "/calc/"+kind+"/jobs/"+id+"/cancel", nil), 404, wire.JobNotFound)
	}
	decode[wire.HeartbeatResponse](t, w.reportOf("thumbnail", "heartbeat", id, beat))
	j := decode[wire.JobResponse](t, r.do("GET", "/calc/thumbnail/jobs/"+id, nil))
	if j.Status != "started" || j.Kind != "thumbnail" || j.Progress == nil || j.Progress.Done != 1 {
		t.Errorf("the job is %+v", j)
	}
	result := `{"pages":[1,2.50],"n":123456789012345678901}`
	a := w.reportOf("thumbnail", "result", id, `{"lease_id":"`+g.LeaseID+`","result":`+result+`}`)
	if !decode[wire.ReportResponse](t, a).OK {
		t.Errorf("the result was answered %s", a.body)
	}
	if a := w.reportOf("thumbnail", "result", id, `{"lease_id":"`+g.LeaseID+`","result":`+result+`}`); !decode[wire.ReportResponse](t, a).Idempotent {
		t.Errorf("the result again was answered %s", a.body)
	}
	refused(t, w.reportOf("thumbnail", "result", id, `{"lease_id":"`+g.LeaseID+`","result":{}}`), 409, wire.AlreadyFinished)
	if a := r.do("GET", "/calc/thumbnail/jobs/"+id+"/result", nil); a.body != `{"result":`+result+`}` {
		t.Errorf("the result is %s", a.body)
	}
	refused(t, r.do("GET", "/calc/thumbnail/jobs/"+id+"/files?kind=summary", nil), 404, wire.NotFound)
}

func TestK17OnlyKindZPEMustHaveItsTexts(t *testing.T) {
	r := newKindRig(t, nil)
	w := r.worker()
	r.submit()
	g := w.lease()
	if msg := refused(t, w.report("result", g.JobID, `{"lease_id":"`+g.LeaseID+`","result":{}}`), 400, wire.InvalidPayload); msg != "Missing required field: summary_text" {
		t.Errorf("the message is %q", msg)
	}
}

func TestK17KindsThatTheGatewayDoesNotHave(t *testing.T) {
	r := newKindRig(t, nil)
	w := r.worker()
	for _, path := range []string{"jobs", "compute/jobs/lease", "compute/jobs/x/heartbeat", "admin/jobs/x/late/accept"} {
		for _, kind := range []string{"unknown", "pdf"} {
			refused(t, r.do("POST", "/calc/"+kind+"/"+path, `{}`, bearer(adminToken)...), 404, wire.NotFound)
		}
	}
	refused(t, w.post(wire.PathLease, wire.LeaseRequest{Kinds: []string{"unknown", "else"}}), 404, wire.NotFound)
	for name, kinds := range map[string][]string{"a name that is none": {"../x"}, "too many": make([]string, 65)} {
		if got := w.post(wire.PathLease, wire.LeaseRequest{Kinds: kinds}).status; got != 400 {
			t.Errorf("%s: answered %d, want 400", name, got)
		}
	}
	// Those that it has are handed out all the same.
	id := r.submitKind("wordcount")
	if g := w.leaseOf("/calc/thumbnail/compute/jobs/lease", "unknown", "wordcount"); g.JobID != id {
		t.Errorf("leased %+v", g)
	}
	plain := newRig(t, nil) // one without a kinds file
	refused(t, plain.do("POST", "/calc/thumbnail/jobs", `{}`), 404, wire.NotFound)
}

func TestK17AWaitingRequestIsWokenByAJobOfItsKinds(t *testing.T) {
	r := newKindRig(t, func(r *rig) { r.plane.JobPollEvery = time.Hour })
	w, v := r.worker(), r.worker()
	got := make(chan answer, 1)
	go func() {
		a, _ := w.try(context.WithoutCancel(t.Context()), "POST", "/calc/thumbnail/compute/jobs/lease", wire.LeaseRequest{WaitSeconds: 30}, bearer(w.token)...)
		got <- a
	}()
	until(t, "a request waits", func() bool { return strings.Contains(r.scrape(), "lease_requests_waiting 1") })
	r.submitKind("wordcount")
	r.submit()
	if g := v.leaseOf(wire.PathLease, "zpe", "wordcount"); g.Kind != "wordcount" && g.Kind != "" {
		t.Errorf("leased %+v", g)
	}
	select {
	case a := <-got:
		t.Fatalf("a request for thumbnails was answered %d %s", a.status, a.body)
	default:
	}
	id := r.submitKind("thumbnail")
	if g := decode[wire.LeaseResponse](t, <-got); g.JobID != id {
		t.Errorf("leased %+v, want %s", g, id)
	}
}

func TestK17RetriesOfAKind(t *testing.T) {
	tests := []struct {
		name, kind string
		report     map[string]any
		requeued   bool
	}{
		{"a kind with a retry", "thumbnail", map[string]any{"error_code": "EXIT_3"}, true},
		{"a kind without", "wordcount", map[string]any{"error_code": "EXIT_3"}, false},
		{"a final failure", "thumbnail", map[string]any{"error_code": "EXIT_65", "retryable": false}, false},
		{"a kind without, whose worker asks for another attempt", "wordcount", map[string]any{"error_code": "EXIT_75", "retry_after_seconds": 1}, true},
		{"a kind without, when its worker is at fault", "wordcount", map[string]any{"error_code": "WORKER_UNAVAILABLE"}, true},
		{"a kind without, when its worker stops", "wordcount", map[string]any{"error_code": "WORKER_SHUTDOWN"}, true},
	}
	r := newKindRig(t, nil)
	w := r.worker()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := r.submitKind(tt.kind)
			g := w.leaseOf("/calc/" + tt.kind + "/compute/jobs/lease")
			tt.report["lease_id"], tt.report["error_message"] = g.LeaseID, "it went wrong"
			a := decode[wire.FailedResponse](t, w.reportOf(tt.kind, "failed", id, tt.report))
			if a.Requeued != tt.requeued {
				t.Errorf("answered %+v, want requeued %t", a, tt.requeued)
			}
			dead := decode[wire.DLQResponse](t, r.do("GET", "/calc/"+tt.kind+"/admin/dlq", nil, bearer(adminToken)...))
			if (len(dead.Jobs) == 1 && dead.Jobs[0].JobID == id) == tt.requeued {
				t.Errorf("the dead letters are %+v", dead)
			}
			for _, j := range dead.Jobs {
				r.do("DELETE", "/calc/"+tt.kind+"/admin/dlq/"+j.JobID, nil, bearer(adminToken)...)
			}
			r.do("POST", "/calc/"+tt.kind+"/jobs/"+id+"/cancel", nil)
		})
	}
}

func TestK17ADeadLetterIsRedrivenOnThePathOfItsKind(t *testing.T) {
	r := newKindRig(t, nil)
	w := r.worker()
	id := r.submitKind("wordcount")
	g := w.leaseOf("/calc/wordcount/compute/jobs/lease")
	decode[wire.FailedResponse](t, w.reportOf("wordcount", "failed", id, broken(g.LeaseID, "X")))
	refused(t, r.do("POST", "/calc/zpe/admin/dlq/"+id+"/requeue", nil, bearer(adminToken)...), 404, wire.JobNotFound)
	if zpe := decode[wire.DLQResponse](t, r.do("GET", wire.PathDLQ, nil, bearer(adminToken)...)); zpe.Total != 0 {
		t.Errorf("kind zpe has %+v", zpe)
	}
	decode[wire.JobResponse](t, r.do("POST", "/calc/wordcount/admin/dlq/"+id+"/requeue", nil, bearer(adminToken)...))
	if g := w.leaseOf("/calc/wordcount/compute/jobs/lease"); g.JobID != id || g.Failures != 0 {
		t.Errorf("leased %+v", g)
	}
}

func TestK01KindsAreReplacedWhileTheGatewayServes(t *testing.T) {
	r := newKindRig(t, nil)
	w := r.worker()
	running, waiting := r.submitKind("thumbnail"), r.submitKind("thumbnail")
	g := w.leaseOf(wire.PathLease, "thumbnail")
	if g.JobID != running {
		t.Fatalf("leased %+v, want %s", g, running)
	}
	r.plane.ReplaceKinds(map[jobs.Kind]control.Kind{"wordcount": {}, "new": {}})

	// What is gone is neither taken nor handed out, and what is new is both.
	refused(t, r.do("POST", "/calc/thumbnail/jobs", `{}`), 404, wire.NotFound)
	refused(t, w.post(wire.PathLease, wire.LeaseRequest{Kinds: []string{"thumbnail"}}), 404, wire.NotFound)
	fresh := r.submitKind("new")
	if got := w.leaseOf(wire.PathLease, "thumbnail", "new"); got.JobID != fresh {
		t.Errorf("leased %+v, want the job of the new kind", got)
	}
	// The job that runs goes on, and fails as its kind said: it is made again after a second.
	decode[wire.HeartbeatResponse](t, w.reportOf("thumbnail", "heartbeat", running, map[string]any{"lease_id": g.LeaseID}))
	decode[wire.ReportResponse](t, w.reportOf("thumbnail", "failed", running, broken(g.LeaseID, "PROGRAM_FAILED")))
	for _, id := range []string{running, waiting} {
		if j := decode[wire.JobResponse](t, r.do("GET", "/calc/thumbnail/jobs/"+id, nil)); j.Status != "queued" {
			t.Errorf("job %s is %+v, want it queued", id, j)
		}
	}
	r.plane.ReplaceKinds(map[jobs.Kind]control.Kind{"thumbnail": {}})
	if got := w.leaseOf(wire.PathLease, "thumbnail"); got.JobID != waiting {
		t.Errorf("leased %+v once the kind is back, want %s", got, waiting)
	}
	refused(t, r.do("POST", "/calc/unknown/jobs", `{}`), 404, wire.NotFound)
}
