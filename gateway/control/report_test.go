package control_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

func TestZ04MissingFieldIsNamedInTheExactWords(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	for what, fields := range map[string][]string{
		"result": {"result", "summary_text", "freqs_csv", "lease_id"},
		"failed": {"error_code", "error_message", "lease_id"},
	} {
		for _, field := range fields {
			for _, null := range []bool{false, true} {
				body := done(g.LeaseID)
				if what == "failed" {
					body = broken(g.LeaseID, "X")
				}
				delete(body, field)
				if null {
					body[field] = nil
				}
				want := fmt.Sprintf(`{"error":{"code":"INVALID_PAYLOAD","message":"Missing required field: %s","details":{}}}`, field)
				if a := w.report(what, id, body); a.status != 400 || a.body != want {
					t.Errorf("%s without %s (null %t): %d %s", what, field, null, a.status, a.body)
				}
			}
		}
	}
	if m := refused(t, w.report("result", id, nil), 400, wire.InvalidPayload); m != "Missing required field: result" {
		t.Error(m)
	}
	if m := refused(t, w.report("failed", id, `{}`), 400, wire.InvalidPayload); m != "Missing required field: error_code" {
		t.Error(m)
	}
	decode[wire.ReportResponse](t, w.report("result", id, done(g.LeaseID)))
}

func TestZ51LeaseIDComesInBodyOrHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	without := func(lease string) map[string]any { b := done(lease); delete(b, "lease_id"); return b }
	id := r.submit()
	g := w.lease()
	for name, a := range map[string]answer{
		"none":          w.report("result", id, without("")),
		"differing":     w.report("result", id, done(g.LeaseID), "X-Lease-Id", "other"),
		"two headers":   w.report("result", id, without(""), "X-Lease-Id", g.LeaseID, "X-Lease-Id", "other"),
		"empty":         w.report("result", id, done("")),
		"empty header":  w.report("result", id, without(""), "X-Lease-Id", ""),
		"failed, none":  w.report("failed", id, `{"error_code":"X","error_message":""}`),
		"failed, both":  w.report("failed", id, broken(g.LeaseID, "X"), "X-Lease-Id", "other"),
		"extend, both":  w.report("heartbeat", id, map[string]any{"lease_id": "other"}, "X-Lease-Id", g.LeaseID),
		"extend, empty": w.report("heartbeat", id, `{}`),
	} {
		if m := refused(t, a, 400, wire.InvalidPayload); m != "Missing required field: lease_id" {
			t.Errorf("%s: %q", name, m)
		}
	}
	decode[wire.ReportResponse](t, w.report("result", id, without(""), "X-Lease-Id", g.LeaseID))
	id = r.submit()
	g = w.lease()
	decode[wire.ReportResponse](t, w.report("result", id, done(g.LeaseID), "X-Lease-Id", g.LeaseID))
}

func TestZ06Z52OnlyTheLeaseDecides(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, thief := r.worker(), r.worker()
	first, second := r.submit(), r.submit()
	mine, other := w.lease(), w.lease()
	before := r.dump()
	for name, a := range map[string]answer{
		"another worker":       thief.report("result", first, done(mine.LeaseID)),
		"another job's lease":  w.report("result", first, done(other.LeaseID)),
		"guessed":              w.report("result", first, done(strings.Repeat("A", 22))),
		"prefix":               w.report("result", first, done(mine.LeaseID[:21])),
		"failed, thief":        thief.report("failed", first, broken(mine.LeaseID, "X")),
		"failed, other's":      w.report("failed", second, broken(mine.LeaseID, "X")),
		"extended by a thief":  thief.report("heartbeat", first, map[string]any{"lease_id": mine.LeaseID}),
		"the name of a key":    w.report("result", first, done("index")),
		"thief with no lease ": thief.report("result", second, done("x")),
	} {
		t.Run(name, func(t *testing.T) { refused(t, a, 409, wire.LeaseLost) })
	}
	if after := r.dump(); after != before {
		t.Errorf("refused reports have written:\n%s\nbefore:\n%s", after, before)
	}
	decode[wire.ReportResponse](t, w.report("result", first, done(mine.LeaseID)))
	decode[wire.ReportResponse](t, w.report("result", second, done(other.LeaseID)))
}

func TestZ53ReaderNeverSeesFinishedWithoutResult(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	for range 30 {
		id := r.submit()
		g := w.lease()
		var all sync.WaitGroup
		ended := make(chan struct{})
		for range 3 {
			all.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
					}
					if r.job(id).Status != "finished" {
						continue
					}
					for _, path := range []string{"/result", "/files?kind=summary", "/files?kind=freqs"} {
						if a := r.do("GET", "/calc/zpe/jobs/"+id+path, nil); a.status != 200 || len(a.body) == 0 {
							t.Errorf("finished, but %s answered %d %s", path, a.status, a.body)
						}
					}
					return
				}
			})
		}
		decode[wire.ReportResponse](t, w.report("result", id, done(g.LeaseID)))
		if a := r.do("GET", "/calc/zpe/jobs/"+id+"/result", nil); a.status != 200 {
			t.Errorf("after the report: %d %s", a.status, a.body)
		}
		close(ended)
		all.Wait()
	}
}

func TestZ54RepeatedResultIsKnownByItsContent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, other := r.worker(), r.worker()
	id := r.submit()
	g := w.lease()
	report := func(who worker, lease, result, summary, meta string) answer {
		return who.report("result", id, fmt.Sprintf(`{"lease_id":%q,"result":%s,"summary_text":%q,"freqs_csv":"f","meta":%s}`, lease, result, summary, meta))
	}
	now, later := `{"timestamp":"2026-02-18T09:30:00Z"}`, `{"timestamp":"2026-02-18T09:31:00Z","qe_version":"7.3"}`
	if a := report(w, g.LeaseID, `{"a":1,"b":"é"}`, "s", now); a.body != `{"ok":true,"idempotent":false}` {
		t.Fatalf("first: %d %s", a.status, a.body)
	}
	for _, same := range []string{`{"a":1,"b":"é"}`, `{ "b" : "\u00e9", "a" : 1 }`} {
		if a := report(w, g.LeaseID, same, "s", later); a.body != `{"ok":true,"idempotent":true}` {
			t.Errorf("again as %s: %d %s", same, a.status, a.body)
		}
	}
	for _, differs := range []answer{
		report(w, g.LeaseID, `{"a":2,"b":"é"}`, "s", now),
		report(w, g.LeaseID, `{"a":1,"b":"é","c":null}`, "s", now),
		report(w, g.LeaseID, `{"a":1,"b":"é"}`, "sf", now),
	} {
		refused(t, differs, 409, wire.AlreadyFinished)
	}
	for _, stranger := range []answer{
		report(other, g.LeaseID, `{"a":1,"b":"é"}`, "s", now),
		report(other, g.LeaseID, `{"a":2}`, "s", now),
		report(w, "guess", `{"a":1,"b":"é"}`, "s", now),
	} {
		refused(t, stranger, 409, wire.LeaseLost)
	}
	if a := r.do("GET", "/calc/zpe/jobs/"+id+"/result", nil); a.body != `{"result":{"a":1,"b":"é"}}` {
		t.Errorf("result reads %s", a.body)
	}
}

func TestZ55NumbersSurviveAndNaNDoesNot(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	report := func(result string) answer {
		return w.report("result", id, `{"lease_id":"`+g.LeaseID+`","summary_text":"","freqs_csv":"","result":`+result+`}`)
	}
	for _, bad := range []string{
		`{"a":NaN}`, `{"a":Infinity}`, `{"a":-Infinity}`, `{"a":nan}`, `{"a":01}`, `{"a":.5}`, `{"a":+1}`, `{"a":0x1}`, `[]`, `"x"`, `1`, `true`,
		`{"a":1,"a":1}`, `{"b":{"a":1,"\u0061":1}}`, `{"a":"` + "\xff" + `"}`, `{"a":"\ud800"}`, `{"a":"` + "\x00" + `"}`, strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70),
	} {
		refused(t, report(bad), 400, wire.InvalidPayload)
	}
	exact := `{"small":1e-17,"neg":-0.0,"big":123456789012345678901234567890,"long":0.1000000000000000055511151231257827,"exp":1E+05,"s":"\u0000\u2028<&>é"}`
	decode[wire.ReportResponse](t, report("  "+exact+"\n"))
	if a := r.do("GET", "/calc/zpe/jobs/"+id+"/result", nil); a.body != `{"result":`+exact+`}` {
		t.Errorf("result reads %s", a.body)
	}
}

func TestZ56MetaIsCheckedCappedAndOptional(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	report := func(meta string) answer {
		body := done(g.LeaseID)
		body["meta"] = json.RawMessage(meta)
		return w.report("result", id, body)
	}
	for _, bad := range []string{
		`[]`, `"x"`, `1`, `{"computation_time_seconds":-1}`, `{"computation_time_seconds":1e999}`, `{"computation_time_seconds":"long"}`,
		`{"timestamp":"yesterday"}`, `{"timestamp":5}`, `{"worker_hostname":["x"]}`, `{"qe_version":{}}`,
	} {
		refused(t, report(bad), 400, wire.InvalidPayload)
	}
	decode[wire.ReportResponse](t, report(`{"worker_hostname":"`+strings.Repeat("é", 200)+`","computation_time_seconds":12.30,"secret":"`+strings.Repeat("x", 1000)+`"}`))
	want := `{"worker_hostname":"` + strings.Repeat("é", 100) + `","computation_time_seconds":12.30}`
	if got := r.rdb.HGet(t.Context(), "zpe:status:"+id, "meta").Val(); got != want {
		t.Errorf("meta is kept as %s", got)
	}
	for _, none := range []any{nil, json.RawMessage(`{}`)} {
		id = r.submit()
		body := done(w.lease().LeaseID)
		if body["meta"] = none; none == nil {
			delete(body, "meta")
		}
		decode[wire.ReportResponse](t, w.report("result", id, body))
	}
}

func TestZ57LateResultIsRefusedKeptAndAccepted(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.Period = 50 * time.Millisecond })
	w, thief := r.worker(), r.worker()
	id := r.submit()
	g := w.lease()
	late := "/calc/zpe/admin/jobs/" + id + "/late"
	refused(t, r.do("GET", late, nil, bearer(adminToken)...), 404, wire.LateNotFound)
	refused(t, r.do("POST", late+"/accept", nil, bearer(adminToken)...), 404, wire.LateNotFound)
	r.ahead.Store(int64(11 * time.Minute))
	until(t, "the lease is taken back", func() bool { return r.job(id).Status == "queued" })
	refused(t, thief.report("result", id, done(g.LeaseID)), 409, wire.LeaseLost)
	refused(t, r.do("GET", late, nil, bearer(adminToken)...), 404, wire.LateNotFound)
	a := w.report("result", id, done(g.LeaseID))
	refused(t, a, 409, wire.LeaseLost)
	if !strings.Contains(a.body, `"details":{"kept_for_seconds":86400}`) {
		t.Errorf("refused without a word of the copy: %s", a.body)
	}
	if l := decode[wire.LateResponse](t, r.do("GET", late, nil, bearer(adminToken)...)); l.WorkerID != w.id || l.LeaseID != g.LeaseID || string(l.Result) != `{"zpe_ev":0.2664}` || l.SummaryText == "" {
		t.Errorf("late result: %+v", l)
	}
	if j := decode[wire.JobResponse](t, r.do("POST", late+"/accept", nil, bearer(adminToken)...)); j.Status != "finished" {
		t.Errorf("accepted: %+v", j)
	}
	if a := r.do("GET", "/calc/zpe/jobs/"+id+"/result", nil); a.status != 200 {
		t.Errorf("result: %d %s", a.status, a.body)
	}
	if a := w.post(wire.PathLease, nil); a.status != 204 {
		t.Errorf("the job is handed out again: %s", a.body)
	}
}

func TestZ58FailureIsClippedNotRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	for _, bad := range []string{"lower", "A B", "A-B", "É", "A\u0000", "<B>", ""} {
		refused(t, w.report("failed", id, broken(g.LeaseID, bad)), 400, wire.InvalidPayload)
	}
	body := broken(g.LeaseID, strings.Repeat("E", 300))
	body["error_message"], body["traceback"] = strings.Repeat("é", 5000), strings.Repeat("線", 50000)+"\u0001"
	body["more"] = 1
	if f := decode[wire.FailedResponse](t, w.report("failed", id, body)); !f.OK || !f.Requeued || f.RetryCount != 1 {
		t.Errorf("failed: %+v", f)
	}
	s := r.rdb.HGetAll(t.Context(), "zpe:status:"+id).Val()
	if s["error_code"] != strings.Repeat("E", 100) || s["error_message"] != strings.Repeat("é", 500) || s["traceback"] != strings.Repeat("線", 64<<10/3) {
		t.Errorf("kept %d, %d and %d bytes", len(s["error_code"]), len(s["error_message"]), len(s["traceback"]))
	}
	if j := r.job(id); j.Status != "queued" || j.RetryCount != 1 || j.Traceback != "" {
		t.Errorf("job: %+v", j)
	}
}

func TestZ59RepeatedFailureCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, other := r.worker(), r.worker()
	id := r.submit()
	g := w.lease()
	first := w.report("failed", id, broken(g.LeaseID, "X"))
	if again := w.report("failed", id, broken(g.LeaseID, "X")); again.status != 200 || again.body != first.body {
		t.Errorf("answered %s, and again %d %s", first.body, again.status, again.body)
	}
	refused(t, w.report("failed", id, broken(g.LeaseID, "Y")), 409, wire.AlreadyReported)
	refused(t, other.report("failed", id, broken(g.LeaseID, "X")), 409, wire.LeaseLost)
	refused(t, w.report("result", id, done(g.LeaseID)), 409, wire.LeaseLost)
	if n := r.metric("batchfleet_gateway_failures_total"); n != 1 {
		t.Errorf("counted %v failures", n)
	}
}

func TestZ60Z61Z62Z75FailuresAreRetriedThenBuriedAndRedriven(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		now := time.Now() // and stays: only the test puts the clock forward
		r.queue.Now = func() time.Time { return now.Add(time.Duration(r.ahead.Load())) }
	})
	w := r.worker()
	admin := bearer(adminToken)
	id := r.submit()
	for n := 1; n <= 4; n++ {
		g := w.lease()
		f := decode[wire.FailedResponse](t, w.report("failed", id, broken(g.LeaseID, "QE_RUNTIME_ERROR")))
		if f.Requeued != (n <= 3) || f.RetryCount != n {
			t.Fatalf("failure %d: %+v", n, f)
		}
		if n <= 3 {
			delay := int64(20<<(n-1)) * int64(time.Second)
			r.ahead.Add(delay - int64(2*time.Second))
			if a := w.post(wire.PathLease, nil); a.status != 204 {
				t.Fatalf("run again too early: %d %s", a.status, a.body)
			}
			r.ahead.Add(int64(3 * time.Second))
		}
	}
	for code, body := range map[string]map[string]any{"INVALID_INPUT": {}, "QE_NOT_CONVERGED": {"retryable": true}, "ANY": {"retryable": false}} {
		job := r.submit()
		ask := broken(w.lease().LeaseID, code)
		maps.Copy(ask, body)
		ask["traceback"] = "line 1\nline 2"
		if f := decode[wire.FailedResponse](t, w.report("failed", job, ask)); f.Requeued {
			t.Errorf("%s is run again: %+v", code, f)
		}
		if j := decode[wire.JobResponse](t, r.do("GET", wire.PathDLQ+"/"+job, nil, admin...)); j.Traceback != "line 1\nline 2" || j.ErrorCode != code || string(j.Payload) != `{"x":1}` {
			t.Errorf("dead letter: %+v", j)
		}
	}
	list := decode[wire.DLQResponse](t, r.do("GET", wire.PathDLQ+"?limit=2&offset=2", nil, admin...))
	if list.Total != 4 || len(list.Jobs) != 2 || list.Jobs[1].JobID != id || !strings.Contains(list.Jobs[1].Detail, "pw.x exited with code 1") {
		t.Errorf("dead letters: %+v", list)
	}
	for _, bad := range []string{"?limit=0", "?limit=1001", "?offset=-1", "?offset=x", "?limit=1&limit=2", "?offset=99999999999999999999"} {
		refused(t, r.do("GET", wire.PathDLQ+bad, nil, admin...), 400, wire.InvalidPayload)
	}
	if j := decode[wire.JobResponse](t, r.do("POST", wire.PathDLQ+"/"+id+"/requeue", nil, admin...)); j.Status != "queued" || j.RetryCount != 0 {
		t.Errorf("redriven: %+v", j)
	}
	refused(t, r.do("POST", wire.PathDLQ+"/"+id+"/requeue", nil, admin...), 404, wire.JobNotFound)
	refused(t, r.do("GET", wire.PathDLQ+"/"+id, nil, admin...), 404, wire.JobNotFound)
	if g := w.lease(); g.JobID != id {
		t.Errorf("leased %+v", g)
	}
	rest := decode[wire.DLQResponse](t, r.do("GET", wire.PathDLQ, nil, admin...)).Jobs
	for _, j := range rest {
		if a := r.do("DELETE", wire.PathDLQ+"/"+j.JobID, nil, admin...); a.status != 204 || a.body != "" {
			t.Errorf("drop answered %d %s", a.status, a.body)
		}
		refused(t, r.do("DELETE", wire.PathDLQ+"/"+j.JobID, nil, admin...), 404, wire.JobNotFound)
	}
	if list := decode[wire.DLQResponse](t, r.do("GET", wire.PathDLQ, nil, admin...)); list.Total != 0 || list.Jobs == nil || len(rest) != 3 {
		t.Errorf("dead letters: %+v", list)
	}
}

func TestZ81WorkerThatStopsHandsTheJobBackUncounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.JobPollEvery, r.plane.Period = time.Hour, time.Hour })
	w, other := r.worker(), r.worker()
	id := r.submit()
	g := w.lease()
	waits := other.waits(t.Context())
	if f := decode[wire.FailedResponse](t, w.report("failed", id, broken(g.LeaseID, "WORKER_SHUTDOWN"))); !f.Requeued || f.RetryCount != 0 {
		t.Errorf("handed back: %+v", f)
	}
	if g := decode[wire.LeaseResponse](t, <-waits); g.JobID != id || g.RetryCount != 0 {
		t.Errorf("waiting worker got %+v", g)
	}
}

func TestResultAndFailureRaceForOneLeaseAndOneWins(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	results, failures := 0, 0
	for range 200 {
		id := r.submit()
		g := w.lease()
		var ok atomic.Int32
		var all sync.WaitGroup
		for _, what := range []string{"result", "failed", "result", "failed"} {
			all.Go(func() {
				body := done(g.LeaseID)
				if what == "failed" {
					body = broken(g.LeaseID, "INVALID_INPUT")
				}
				a, err := w.try(t.Context(), "POST", "/calc/zpe/compute/jobs/"+id+"/"+what, body, bearer(w.token)...)
				switch {
				case err != nil:
					t.Error(err)
				case a.status == 200:
					ok.Add(1)
				default:
					refused(t, a, 409, wire.LeaseLost)
				}
			})
		}
		all.Wait()
		if ok.Load() != 2 { // the winner's and its repetition
			t.Errorf("%d reports were taken", ok.Load())
		}
		switch j := r.job(id); j.Status {
		case "finished":
			results++
		case "failed":
			failures++
		default:
			t.Errorf("job: %+v", j)
		}
	}
	if results+failures != 200 || r.metric("batchfleet_gateway_results_total") != float64(results) || r.metric("batchfleet_gateway_failures_total") != float64(failures) {
		t.Errorf("%d results and %d failures", results, failures)
	}
	t.Logf("%d results, %d failures", results, failures)
}

func TestTextOfWorkersIsMadeVisible(t *testing.T) {
	t.Parallel()
	const evil, want = "\x1b[2J\x00\u009b\u202e\u2066ok", `\x1b[2J\x00\u009b\u202e\u2066ok`
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	decode[wire.HeartbeatResponse](t, w.report("heartbeat", id, wire.HeartbeatRequest{LeaseID: g.LeaseID, Message: evil}))
	if j := r.job(id); j.Detail != want {
		t.Errorf("the message of a heartbeat is %q, want %q", j.Detail, want)
	}
	decode[wire.FailedResponse](t, w.report("failed", id, map[string]any{
		"lease_id": g.LeaseID, "error_code": "INVALID_INPUT", "error_message": strings.Repeat(evil, 100), "traceback": "one\r\ntwo\t" + evil + "\n",
	}))
	j := decode[wire.JobResponse](t, r.do("GET", "/calc/zpe/admin/dlq/"+id, nil, bearer(adminToken)...))
	if got := "one\ntwo\t" + want + "\n"; j.Traceback != got {
		t.Errorf("the traceback is %q, want %q", j.Traceback, got)
	}
	if message := strings.TrimPrefix(j.Detail, "INVALID_INPUT: "); len(message) != wire.MaxErrorMessage || !strings.HasPrefix(message, want+want) {
		t.Errorf("the error message has %d bytes: %q", len(message), message)
	}
	id = r.submit()
	g = w.lease()
	body := done(g.LeaseID)
	body["meta"] = map[string]any{"worker_hostname": evil, "qe_version": evil}
	decode[wire.ReportResponse](t, w.report("result", id, body))
	if dump := r.dump(); strings.Contains(dump, "\x1b") || strings.Contains(dump, "\u202e") {
		t.Errorf("Redis holds what a terminal obeys: %q", dump)
	}
}
