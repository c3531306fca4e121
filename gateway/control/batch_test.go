package control_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// leaseSome leases up to so many jobs of kind zpe.
func (w worker) leaseSome(most int) []wire.LeaseResponse {
	w.t.Helper()
	return decode[wire.LeasesResponse](w.t, w.post(wire.PathLease, wire.LeaseRequest{Features: []string{"renew"}, Max: &most})).Jobs
}

// doneOf is one of several results.
func doneOf(g wire.LeaseResponse) map[string]any {
	one := done(g.LeaseID)
	one["job_id"] = g.JobID
	return one
}

func TestK18LeaseMayAskForUpTo64Jobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.queue.MaxLeases = 100 })
	w := r.worker()
	var ids []string
	for range wire.MaxBatch + 2 {
		ids = append(ids, r.submit())
	}
	single := w.lease()
	several := w.leaseSome(wire.MaxBatch)
	if single.JobID != ids[0] || len(several) != wire.MaxBatch {
		t.Fatalf("leased %s alone, want %s, and then %d jobs, want %d", single.JobID, ids[0], len(several), wire.MaxBatch)
	}
	for i, g := range several {
		if g.JobID != ids[i+1] || string(g.Payload) != `{"x":1}` || g.LeaseTTLSeconds != 600 {
			t.Errorf("job %d is %+v, want %s", i, g, ids[i+1])
		}
	}
	one := 1
	alone := w.post(wire.PathLease, wire.LeaseRequest{Features: []string{"renew"}, Max: &one})
	if g := decode[wire.LeasesResponse](t, alone).Jobs; len(g) != 1 || g[0].JobID != ids[len(ids)-1] {
		t.Fatalf("leased %+v", g)
	}
	// The batch of one is the single form with brackets around it.
	inside, ok := strings.CutPrefix(strings.TrimSuffix(alone.body, `]}`), `{"jobs":[`)
	var g wire.LeaseResponse
	if err := json.Unmarshal([]byte(inside), &g); !ok || err != nil {
		t.Errorf("%s: %v", alone.body, err)
	}
	if a := w.post(wire.PathLease, `{"max":2}`); a.status != 204 || a.body != "" {
		t.Errorf("without a job: %d %q", a.status, a.body)
	}
}

func TestK18AsManyJobsAsThereMayNotBeAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	r.submit()
	for _, most := range []string{"0", "-1", "65", "1.5", `"2"`, "1e99"} {
		if message := refused(t, w.post(wire.PathLease, `{"max":`+most+`}`), 400, wire.InvalidPayload); !strings.Contains(message, "max") {
			t.Errorf("max %s: %q does not name the field", most, message)
		}
	}
	if got := decode[wire.LeaseResponse](t, w.post(wire.PathLease, `{"max":null}`)); got.JobID == "" {
		t.Error("null is not as if it were absent")
	}
	many := `[` + strings.Repeat(`{},`, wire.MaxBatch) + `{}]`
	for path, field := range map[string]string{wire.PathResults: "results", wire.PathHeartbeats: "heartbeats"} {
		for _, list := range []string{`[]`, many, `{}`, `"x"`, `null`} {
			message := refused(t, w.post(path, `{"`+field+`":`+list+`}`), 400, wire.InvalidPayload)
			if !strings.Contains(message, field) {
				t.Errorf("%s %.20s: %q does not name the field", path, list, message)
			}
		}
		refused(t, w.post(path, `{}`), 400, wire.InvalidPayload)
		refused(t, r.do("POST", path, `{"`+field+`":[{}]}`, bearer("zpw_nobody")...), 401, wire.Unauthorized)
		refused(t, r.do("POST", path, `{"`+field+`":`+many+`}`, bearer("zpw_nobody")...), 401, wire.Unauthorized)
		refused(t, w.post(path, `{"worker_id":"w-other","`+field+`":[{}]}`), 403, wire.WorkerMismatch)
	}
}

func TestK18TheSizeOfABatchIsLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	refused(t, w.post(wire.PathHeartbeats, `{"heartbeats":[{"message":"`+strings.Repeat("x", wire.MaxSmallBody)+`"}]}`), 413, wire.PayloadTooLarge)
	refused(t, w.post(wire.PathResults, `{"results":[{"summary_text":"`+strings.Repeat("x", wire.MaxResultBody)+`"}]}`), 413, wire.PayloadTooLarge)
}

func TestK18EachReportOfABatchHasItsOwnVerdict(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, other := r.worker(), r.worker()
	for range 5 {
		r.submit()
	}
	mine, theirs := w.leaseSome(4), other.lease()
	decode[wire.ReportResponse](t, w.report("result", mine[1].JobID, done(mine[1].LeaseID)))
	changed := done(mine[2].LeaseID)
	changed["summary_text"] = "other"
	decode[wire.ReportResponse](t, w.report("result", mine[2].JobID, changed))

	unfinished := doneOf(mine[3])
	delete(unfinished, "freqs_csv")
	written := doneOf(mine[1])
	written["result"] = json.RawMessage(`{ "zpe_ev" : 0.2664 }`) // the same value
	entries := []map[string]any{
		doneOf(mine[0]), written, doneOf(mine[2]), doneOf(theirs), unfinished,
		doneOf(wire.LeaseResponse{JobID: "01KUNKNOWN", LeaseID: "l"}), doneOf(wire.LeaseResponse{JobID: "no/job", LeaseID: "l"}),
		doneOf(wire.LeaseResponse{JobID: mine[3].JobID}), doneOf(wire.LeaseResponse{JobID: mine[3].JobID, LeaseID: "wrong"}),
	}
	want := []wire.Code{"", "again", wire.AlreadyFinished, wire.LeaseLost, wire.InvalidPayload, wire.JobNotFound, wire.JobNotFound, wire.InvalidPayload, wire.LeaseLost}
	verdicts := decode[wire.ResultsResponse](t, w.post(wire.PathResults, map[string]any{"results": entries})).Results
	if len(verdicts) != len(entries) {
		t.Fatalf("%d verdicts on %d results", len(verdicts), len(entries))
	}
	for i, v := range verdicts {
		switch {
		case want[i] == "" || want[i] == "again":
			if v.Refusal != nil || !v.OK || v.Idempotent != (want[i] == "again") {
				t.Errorf("result %d: %+v %+v", i, v.ReportResponse, v.Refusal)
			}
		case v.ReportResponse != nil || v.Refusal == nil || v.Error.Code != want[i] || v.Error.Message == "":
			t.Errorf("result %d: %+v %+v, want %s", i, v.ReportResponse, v.Refusal, want[i])
		default: // it says what it would have said alone
			job, _ := entries[i]["job_id"].(string)
			if job == "no/job" {
				continue
			}
			if message := refused(t, w.report("result", job, entries[i]), v.Status, v.Error.Code); message != v.Error.Message {
				t.Errorf("result %d: %q, alone %q", i, v.Error.Message, message)
			}
		}
	}
	if got := r.job(mine[0].JobID).Status; got != "finished" {
		t.Errorf("the first is %s", got)
	}
	if got := r.job(theirs.JobID).Status; got != "started" {
		t.Errorf("another worker's is %s", got)
	}

	beats := []map[string]any{
		{"job_id": mine[3].JobID, "lease_id": mine[3].LeaseID, "progress": map[string]int{"done": 1, "total": 2}},
		{"job_id": theirs.JobID, "lease_id": theirs.LeaseID},
		{"job_id": mine[3].JobID, "lease_id": mine[3].LeaseID, "progress": map[string]int{"done": -1}},
		{"job_id": "01KUNKNOWN", "lease_id": "l"},
	}
	answers := decode[wire.HeartbeatsResponse](t, w.post(wire.PathHeartbeats, map[string]any{"heartbeats": beats})).Heartbeats
	for i, code := range []wire.Code{"", wire.LeaseLost, wire.InvalidPayload, wire.JobNotFound} {
		a := answers[i]
		if code == "" && (a.Refusal != nil || a.HeartbeatResponse == nil || a.LeaseID != mine[3].LeaseID || a.LeaseTTLSeconds != 600) ||
			code != "" && (a.HeartbeatResponse != nil || a.Refusal == nil || a.Error.Code != code) {
			t.Errorf("heartbeat %d: %+v %+v, want %q", i, a.HeartbeatResponse, a.Refusal, code)
		}
	}
	if p := r.job(mine[3].JobID).Progress; p == nil || p.Done != 1 {
		t.Errorf("progress is %+v", p)
	}
}

// Other kinds have the routes, too, and know their own jobs alone.
func TestK18BatchesAreOfOneKind(t *testing.T) {
	t.Parallel()
	r := newKindRig(t, nil)
	w := r.worker()
	r.submitKind("thumbnail")
	r.submit()
	most := 5
	both := decode[wire.LeasesResponse](t, w.post(wire.PathLease, wire.LeaseRequest{Features: []string{"renew"}, Kinds: []string{"thumbnail", "zpe"}, Max: &most})).Jobs
	if len(both) != 2 || both[0].Kind != "thumbnail" || both[1].Kind != "" {
		t.Fatalf("leased %+v", both)
	}
	body := map[string]any{"results": []map[string]any{doneOf(both[0]), doneOf(both[1])}}
	for i, v := range decode[wire.ResultsResponse](t, w.post(wire.PathOf("thumbnail", wire.PathResults), body)).Results {
		if (i == 0) != (v.Refusal == nil) {
			t.Errorf("result %d on the path of the first kind: %+v", i, v.Refusal)
		}
	}
	for i, v := range decode[wire.ResultsResponse](t, w.post(wire.PathResults, body)).Results {
		if (i == 1) != (v.Refusal == nil) {
			t.Errorf("result %d on the path of zpe: %+v", i, v.Refusal)
		}
	}
	refused(t, w.post(wire.PathOf("unknown", wire.PathResults), body), 404, wire.NotFound)
}

// A batch whose answer was lost has been recorded, and counts once when it comes again.
func TestK18BatchThatIsSentAgainCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	for range 3 {
		r.submit()
	}
	some := w.leaseSome(3)
	body := map[string]any{"results": []map[string]any{doneOf(some[0]), doneOf(some[1]), doneOf(some[2])}}
	came := make(chan context.Context, 1)
	r.came.Store(&came)
	ctx, cut := context.WithCancel(t.Context())
	r.redis.Freeze()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = r.try(ctx, "POST", wire.PathResults, body, bearer(w.token)...)
	}()
	<-came
	cut()
	<-ended
	r.redis.Resume()
	for range 2 {
		for i, v := range decode[wire.ResultsResponse](t, w.post(wire.PathResults, body)).Results {
			if v.Refusal != nil {
				t.Errorf("result %d: %+v", i, v.Refusal)
			}
		}
	}
	for _, g := range some {
		if got := r.rdb.HGet(t.Context(), "zpe:status:"+g.JobID, "outcomes").Val(); got != "1" {
			t.Errorf("job %s has ended %s times", g.JobID, got)
		}
	}
}

func TestK18WaitingRequestGetsWhatHasComeMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	got := make(chan answer, 1)
	go func() {
		a, _ := r.try(t.Context(), "POST", wire.PathLease, `{"max":3,"wait_seconds":30}`, bearer(w.token)...)
		got <- a
	}()
	until(t, "it waits", func() bool { return strings.Contains(r.scrape(), "lease_requests_waiting 1") })
	id := r.submit()
	if g := decode[wire.LeasesResponse](t, <-got).Jobs; len(g) != 1 || g[0].JobID != id {
		t.Errorf("leased %+v, want %s", g, id)
	}
}

func TestK18WorkerWithoutHTTPLeasesSeveral(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	direct, err := control.NewDirect(r.queue, "lab-1")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{r.submit(), r.submit()}
	most := 3
	some, err := direct.LeaseJobs(t.Context(), wire.LeaseRequest{Max: &most})
	if err != nil || len(some) != 2 || some[0].JobID != ids[0] || some[1].JobID != ids[1] {
		t.Errorf("leased %+v, %v; want %v", some, err, ids)
	}
	most = 65
	if _, err := direct.LeaseJobs(t.Context(), wire.LeaseRequest{Max: &most}); err == nil {
		t.Error("65 jobs may be asked for")
	}
}
