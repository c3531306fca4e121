package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

func TestZ25SubmittedJobIsQueuedWithItsPayloadAndResultComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	payload := `{ "structure": {"a":[1e-17, 123456789012345678901234567890]}, "t":"<&> é \u00e9" }`
	id := decode[wire.SubmitResponse](t, r.do("POST", wire.PathJobs, " \r\n\t"+payload+"\n ")).JobID
	if j := r.job(id); j.Status != "queued" || j.UpdatedAt == "" || j.JobID != id {
		t.Errorf("submitted job: %+v", j)
	}
	a := w.post(wire.PathLease, nil)
	if !strings.Contains(a.body, `"payload":`+payload+`,`) {
		t.Errorf("leased %s, want the payload as it was submitted: %s", a.body, payload)
	}
	g := decode[wire.LeaseResponse](t, a)
	if g.JobID != id || g.LeaseID == "" || g.LeaseTTLSeconds != 86400 {
		t.Errorf("leased %+v", g)
	}
	if j := r.job(id); j.Status != "started" || j.WorkerID != w.id {
		t.Errorf("leased job: %+v", j)
	}
	if got := w.report("result", id, done(g.LeaseID)); got.body != `{"ok":true,"idempotent":false}` {
		t.Errorf("result answered %d %s", got.status, got.body)
	}
	if j := r.job(id); j.Status != "finished" {
		t.Errorf("finished job: %+v", j)
	}
	if got := r.do("GET", "/calc/zpe/jobs/"+id+"/result", nil); got.body != `{"result":{"zpe_ev":0.2664}}` || got.status != 200 {
		t.Errorf("result reads %d %s", got.status, got.body)
	}
}

func TestZ26ResultOfJobThatHasNoneIs409WithItsState(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	refused(t, r.do("GET", "/calc/zpe/jobs/01J00000000000000000000000/result", nil), 404, wire.JobNotFound)
	id := r.submit()
	read := func(state string) {
		t.Helper()
		for _, path := range []string{"/result", "/files?kind=summary", "/files?kind=freqs"} {
			if m := refused(t, r.do("GET", "/calc/zpe/jobs/"+id+path, nil), 409, wire.NotFinished); !strings.Contains(m, state) {
				t.Errorf("%s of a %s job says %q", path, state, m)
			}
		}
	}
	read("queued")
	g := w.lease()
	read("started")
	decode[wire.FailedResponse](t, w.report("failed", id, broken(g.LeaseID, "INVALID_INPUT")))
	read("failed")
}

func TestZ27FilesAreTextToBeSaved(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	id := r.submit()
	w.report("result", id, done(w.lease().LeaseID))
	for kind, want := range map[string][3]string{
		"summary": {"text/plain; charset=utf-8", id + "-summary.txt", "ZPE 0.2664 eV"},
		"freqs":   {"text/csv; charset=utf-8", id + "-freqs.csv", "mode,cm-1\n1,4296\n"},
	} {
		a := r.do("GET", "/calc/zpe/jobs/"+id+"/files?kind="+kind, nil)
		h := a.header
		if a.status != 200 || a.body != want[2] || h.Get("Content-Type") != want[0] ||
			h.Get("Content-Disposition") != fmt.Sprintf("attachment; filename=%q", want[1]) || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %q %v", kind, a.status, a.body, h)
		}
	}
	for _, query := range []string{"", "?kind=", "?kind=result", "?kind=summary&kind=freqs", "?Kind=summary"} {
		refused(t, r.do("GET", "/calc/zpe/jobs/"+id+"/files"+query, nil), 400, wire.InvalidPayload)
	}
}

func TestJobThatIsPutOffSaysWhenItRunsAndWhoRanIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	enroll := r.enroll()
	reg := decode[wire.RegisterResponse](t, r.do("POST", wire.PathRegister, wire.RegisterRequest{Token: enroll, Name: "lab 7"}))
	w := worker{r, reg.WorkerID, reg.WorkerToken}
	id := r.submit()
	if j := r.job(id); j.RunAfter != "" || j.WorkerName != "" {
		t.Errorf("submitted job: %+v", j)
	}
	w.report("failed", id, broken(w.lease().LeaseID, "X"))
	j := r.job(id)
	at, err := time.Parse(time.RFC3339Nano, j.RunAfter)
	if updated, err2 := time.Parse(time.RFC3339Nano, j.UpdatedAt); err != nil || err2 != nil || at.Sub(updated).Round(time.Second) != 20*time.Second {
		t.Errorf("it runs after %q, which should be 20 s after %q: %v, %v", j.RunAfter, j.UpdatedAt, err, err2)
	}
	if j.WorkerID != w.id || j.WorkerName != "lab 7" || j.ErrorCode != "X" {
		t.Errorf("job that is put off: %+v", j)
	}
	r.ahead.Store(int64(21 * time.Second))
	w.lease()
	if j := r.job(id); j.Status != "started" || j.RunAfter != "" || j.ErrorCode != "X" {
		t.Errorf("job that runs again: %+v", j)
	}
}

func TestZ75DeadLetterThatIsNoneIsNamedSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, admin := r.worker(), bearer(adminToken)
	id := r.submit()
	w.report("failed", id, broken(w.lease().LeaseID, "INVALID_INPUT"))
	path := wire.PathDLQ + "/" + id
	if j := decode[wire.JobResponse](t, r.do("POST", path+"/requeue", nil, admin...)); j.Status != "queued" {
		t.Errorf("requeued: %+v", j)
	}
	for what, a := range map[string]answer{
		"requeue": r.do("POST", path+"/requeue", nil, admin...), "drop": r.do("DELETE", path, nil, admin...), "show": r.do("GET", path, nil, admin...),
	} {
		if m := refused(t, a, 404, wire.JobNotFound); m != "The job is no dead letter" {
			t.Errorf("%s says %q", what, m)
		}
	}
	if m := refused(t, r.do("POST", wire.PathDLQ+"/none/requeue", nil, admin...), 404, wire.JobNotFound); m != "No such job" {
		t.Errorf("requeue of no job says %q", m)
	}
}

func TestZ50ResultIsAnsweredOKAndKeptWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	id := r.submit()
	a := w.report("result", id, done(w.lease().LeaseID))
	if a.status != 200 || a.body != `{"ok":true,"idempotent":false}` {
		t.Errorf("answered %d %s", a.status, a.body)
	}
	if j := r.job(id); j.Status != "finished" || j.WorkerID != w.id || j.ErrorCode != "" {
		t.Errorf("job: %+v", j)
	}
	get := func(key string) string { return r.rdb.Get(t.Context(), key+id).Val() }
	if get("zpe:result:") != `{"zpe_ev":0.2664}` || get("zpe:summary:") != "ZPE 0.2664 eV" || get("zpe:freqs:") != "mode,cm-1\n1,4296\n" {
		t.Errorf("kept are %q, %q, %q", get("zpe:result:"), get("zpe:summary:"), get("zpe:freqs:"))
	}
	if meta := r.rdb.HGet(t.Context(), "zpe:status:"+id, "meta").Val(); !strings.Contains(meta, `"qe_version":"7.2"`) {
		t.Errorf("meta is %s", meta)
	}
}
