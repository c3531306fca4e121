package control_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

func TestZ40LeaseWithoutJobIs204WithoutBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	for _, body := range []any{nil, `{}`, ``, `{"later":{"x":[1]}}`} {
		a := w.post(wire.PathLease, body)
		if a.status != 204 || a.body != "" {
			t.Errorf("body %v: answered %d %q", body, a.status, a.body)
		}
	}
	for _, bad := range []string{
		`{"wait_seconds":31}`, `{"wait_seconds":-1}`, `{"wait_seconds":"5"}`, `{"request_id":"a b"}`, `{"request_id":"` + strings.Repeat("x", 65) + `"}`,
		`{"features":"renew"}`, `{"wait_seconds":NaN}`, `[]`, `null x`, `{"worker_id":1}`,
	} {
		refused(t, w.post(wire.PathLease, bad), 400, wire.InvalidPayload)
	}
}

func TestZ42RepeatedRequestGetsTheSameLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, other := r.worker(), r.worker()
	r.submit()
	r.submit()
	ask := map[string]any{"request_id": "req-1", "features": []string{"renew"}}
	first := decode[wire.LeaseResponse](t, w.post(wire.PathLease, ask))
	again := decode[wire.LeaseResponse](t, w.post(wire.PathLease, ask))
	if first.JobID != again.JobID || first.LeaseID != again.LeaseID {
		t.Errorf("leased %+v, and then %+v", first, again)
	}
	if g := decode[wire.LeaseResponse](t, other.post(wire.PathLease, ask)); g.LeaseID == first.LeaseID {
		t.Error("another worker got the lease")
	}
	w.report("result", first.JobID, done(first.LeaseID))
	if a := w.post(wire.PathLease, ask); a.status != 204 {
		t.Errorf("after its end the request got %d %s", a.status, a.body)
	}
}

func TestZ45HeartbeatSaysHowLongTheLeaseLasts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	r.submit()
	r.submit()
	direct, err := control.NewDirect(r.queue, "lab-1")
	if err != nil {
		t.Fatal(err)
	}
	g := decode[wire.LeaseResponse](t, w.post(wire.PathLease, wire.LeaseRequest{})) // without renew, for the job's whole time
	own, err := direct.Lease(t.Context(), wire.LeaseRequest{})
	if err != nil {
		t.Fatal(err)
	}
	byHTTP := decode[wire.HeartbeatResponse](t, w.report("heartbeat", g.JobID, wire.HeartbeatRequest{LeaseID: g.LeaseID}))
	byRedis, err := direct.Heartbeat(t.Context(), own.JobID, wire.HeartbeatRequest{LeaseID: own.LeaseID})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []wire.HeartbeatResponse{byHTTP, byRedis} {
		left := b.ExpiresAt - float64(r.queue.Now().UnixMilli())/1000
		if b.LeaseTTLSeconds != 86400 || left < 86300 || left > 86400 {
			t.Errorf("%+v ends in %v s", b, left)
		}
	}
}

func TestZ45HeartbeatExtendsTellsAndHearsOfCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, other := r.worker(), r.worker()
	id := r.submit()
	g := w.lease()
	if g.LeaseTTLSeconds != 600 {
		t.Errorf("a worker that renews got %v s", g.LeaseTTLSeconds)
	}
	r.ahead.Store(int64(time.Minute))
	message := strings.Repeat("é", 600) // 1200 bytes
	b := decode[wire.HeartbeatResponse](t, w.report("heartbeat", id, map[string]any{
		"lease_id": g.LeaseID, "progress": map[string]any{"done": 3, "total": 12, "more": 1}, "message": message,
	}))
	if left := b.ExpiresAt - float64(r.queue.Now().UnixMilli())/1000; b.LeaseID != g.LeaseID || b.LeaseTTLSeconds != 600 || left < 590 || left > 600 || b.CancelRequested {
		t.Errorf("heartbeat answered %+v", b)
	}
	if j := r.job(id); j.Progress == nil || *j.Progress != (wire.Progress{Done: 3, Total: 12}) || j.Detail != message[:1000] {
		t.Errorf("job: %+v", j)
	}
	for _, bad := range []map[string]any{
		{"lease_id": g.LeaseID, "progress": map[string]any{"done": -1}},
		{"lease_id": g.LeaseID, "progress": map[string]any{"done": 1 << 54}},
		{"lease_id": g.LeaseID, "progress": 5},
		{"lease_id": g.LeaseID, "message": 5},
		{"lease_id": "a b"},
		{"lease_id": strings.Repeat("x", 65)},
		{"lease_id": "a\u0000"},
	} {
		refused(t, w.report("heartbeat", id, bad), 400, wire.InvalidPayload)
	}
	if m := refused(t, w.report("heartbeat", id, nil), 400, wire.InvalidPayload); m != "Missing required field: lease_id" {
		t.Error(m)
	}
	refused(t, w.report("heartbeat", id, map[string]any{"lease_id": "guess"}), 409, wire.LeaseLost)
	refused(t, other.report("heartbeat", id, map[string]any{"lease_id": g.LeaseID}), 409, wire.LeaseLost)

	if j := decode[wire.JobResponse](t, r.do("POST", "/calc/zpe/jobs/"+id+"/cancel", nil)); !j.CancelRequested || j.Status != "started" {
		t.Errorf("cancel answered %+v", j)
	}
	if b := decode[wire.HeartbeatResponse](t, w.report("heartbeat", id, nil, wire.HeaderLeaseID, g.LeaseID)); !b.CancelRequested {
		t.Error("the heartbeat does not hear of the cancel")
	}
	if f := decode[wire.FailedResponse](t, w.report("failed", id, broken(g.LeaseID, "CANCELED"))); f.Requeued {
		t.Errorf("canceled job: %+v", f)
	}
	if j := r.job(id); j.Status != "failed" || j.Detail != "canceled" {
		t.Errorf("canceled job: %+v", j)
	}
	if j := decode[wire.JobResponse](t, r.do("POST", "/calc/zpe/jobs/"+id+"/cancel", nil)); j.Detail != "canceled" {
		t.Errorf("canceled again: %+v", j)
	}
	if a := decode[wire.DLQResponse](t, r.do("GET", wire.PathDLQ, nil, bearer(adminToken)...)); a.Total != 0 {
		t.Errorf("a canceled job is a dead letter: %+v", a)
	}
	refused(t, r.do("POST", "/calc/zpe/jobs/nosuch/cancel", nil), 404, wire.JobNotFound)
	id = r.submit()
	if j := decode[wire.JobResponse](t, r.do("POST", "/calc/zpe/jobs/"+id+"/cancel", nil)); j.Status != "failed" || j.Detail != "canceled" {
		t.Errorf("a queued job that is canceled: %+v", j)
	}
	id = r.submit()
	if g = w.lease(); g.JobID != id {
		t.Errorf("a canceled job was handed out: %+v", g)
	}
	decode[wire.ReportResponse](t, w.report("result", id, done(g.LeaseID)))
	refused(t, r.do("POST", "/calc/zpe/jobs/"+id+"/cancel", nil), 409, wire.AlreadyEnded)
}

func TestZ47HeartbeatsAfterTheJobTimeoutAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.Period = 50 * time.Millisecond })
	w, g := r.leased()
	id := g.JobID
	for hour := range 24 { // every reaper but the first round sees a lease that holds
		r.ahead.Store(int64(time.Duration(hour) * 9 * time.Minute))
		decode[wire.HeartbeatResponse](t, w.report("heartbeat", id, map[string]any{"lease_id": g.LeaseID}))
	}
	r.ahead.Store(int64(24*time.Hour + time.Minute))
	a := w.report("heartbeat", id, map[string]any{"lease_id": g.LeaseID})
	if a.status != 409 || !strings.Contains(a.body, "LEASE_LOST") {
		t.Errorf("after 24 h: %d %s", a.status, a.body)
	}
	until(t, "the lease is taken back", func() bool { return r.job(id).Status != "started" })
}

// waits starts a lease request that waits, and returns where its answer comes.
func (w worker) waits(ctx context.Context) <-chan answer {
	c := make(chan answer, 1)
	before := w.waiting()
	go func() {
		a, err := w.try(ctx, "POST", wire.PathLease, map[string]any{"wait_seconds": 30, "features": []string{"renew"}}, bearer(w.token)...)
		if err != nil {
			a.status = -1
		}
		c <- a
	}()
	until(w.t, "the request waits", func() bool { return w.waiting() > before })
	return c
}

// waiting returns how many requests wait, by the metrics.
func (r *rig) waiting() float64 { return r.metric("batchfleet_gateway_lease_requests_waiting") }

func TestZ48SubmitWakesOneWaitingRequest(t *testing.T) {
	t.Parallel()
	// Nothing but the submission itself can wake in this time.
	r := newRig(t, func(r *rig) { r.plane.JobPollEvery, r.plane.Period = time.Hour, time.Hour })
	w := r.worker()
	first, second := w.waits(t.Context()), w.waits(t.Context())
	id := r.submit()
	if g := decode[wire.LeaseResponse](t, <-first); g.JobID != id {
		t.Errorf("the first got %+v", g)
	}
	select {
	case a := <-second:
		t.Errorf("the second was answered, too: %+v", a)
	case <-time.After(50 * time.Millisecond):
	}
	id = r.submit()
	if g := decode[wire.LeaseResponse](t, <-second); g.JobID != id {
		t.Errorf("the second got %+v", g)
	}
	if n := r.metric("batchfleet_gateway_leases_total"); n != 2 {
		t.Errorf("counted %v leases", n)
	}
}

func TestZ48SubmitByAnotherGatewayAndDelayedJobsWake(t *testing.T) {
	t.Parallel()
	quick := func(r *rig) { r.plane.JobPollEvery = 20 * time.Millisecond }
	r := newRig(t, quick)
	other := newRigOn(t, r.redis, quick)
	w := r.worker()
	waits := w.waits(t.Context())
	id := other.submit()
	g := decode[wire.LeaseResponse](t, <-waits)
	if g.JobID != id {
		t.Errorf("got %+v", g)
	}
	decode[wire.FailedResponse](t, w.report("failed", id, broken(g.LeaseID, "QE_RUNTIME_ERROR")))
	waits = w.waits(t.Context())
	r.ahead.Store(int64(21 * time.Second))
	if g := decode[wire.LeaseResponse](t, <-waits); g.JobID != id || g.RetryCount != 1 {
		t.Errorf("got %+v", g)
	}
}

func TestZ48WaitEndsWithItsTimeAndWithTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	began := time.Now()
	if a := w.post(wire.PathLease, map[string]any{"wait_seconds": 0.5}); a.status != 204 {
		t.Errorf("after its time: %d %s", a.status, a.body)
	}
	took := time.Since(began).Seconds()
	if work := r.seconds("batchfleet_gateway_http_request_seconds", "route", wire.PathLease); work <= 0 || work > took-0.4 {
		t.Errorf("the request is said to have taken %v s of work; it has waited for 0.5 s of %v s", work, took)
	}
	waits := w.waits(t.Context())
	began = time.Now()
	r.stop()
	if a := <-waits; a.status != 204 || time.Since(began) > 20*time.Second {
		t.Errorf("when the server stops: %+v after %s", a, time.Since(began))
	}
}

func TestZ48CallerThatHasGoneGetsNoLeaseAndItsTurnIsAnothers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.JobPollEvery, r.plane.Period = time.Hour, time.Hour })
	w := r.worker()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		gone := w.waits(ctx)
		stays := w.waits(t.Context())
		var both sync.WaitGroup
		both.Go(cancel)
		id := r.submit()
		both.Wait()
		got := make(chan answer, 1)
		go func() { got <- <-stays }()
		select {
		case a := <-got:
			g := decode[wire.LeaseResponse](t, a)
			if g.JobID != id {
				t.Fatalf("got %+v", g)
			}
			w.report("result", id, done(g.LeaseID))
			<-gone
		case a := <-gone:
			if a.status == 200 { // it was answered before it was called off
				g := decode[wire.LeaseResponse](t, a)
				w.report("result", id, done(g.LeaseID))
				r.submit()
			}
			var last answer
			until(t, "the one that stays is answered", func() bool {
				select {
				case last = <-got:
					return true
				default:
				}
				// An answer that was on its way when the caller went is lost, and the job
				// with it until its lease is over: that is what request_id is for.
				if lease := r.rdb.HGet(t.Context(), "zpe:lease:"+id, "lease_id").Val(); lease != "" && a.status != 200 && r.waiting() == 1 &&
					w.report("result", id, done(lease)).status == 200 {
					r.submit()
				}
				return false
			})
			g := decode[wire.LeaseResponse](t, last)
			w.report("result", g.JobID, done(g.LeaseID))
		}
		until(t, "no request waits", func() bool { return r.waiting() == 0 })
	}
	// Not by the metric, which may be a second old.
	if s, err := r.queue.Stats(t.Context()); err != nil || s.Leased != 0 {
		t.Errorf("%d leases that no worker has, %v", s.Leased, err)
	}
}

func TestZ48TooManyWaitingAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.MaxWaiting = 2 })
	w := r.worker()
	first, second := w.waits(t.Context()), w.waits(t.Context())
	a := w.post(wire.PathLease, map[string]any{"wait_seconds": 30})
	if a.status != 204 || a.header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %v", a.status, a.header)
	}
	r.submit()
	r.submit()
	<-first
	<-second
}

func TestZ48RevokedWorkerThatWaitsDoesNotSwallowTheTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.JobPollEvery, r.plane.Period = time.Hour, time.Hour })
	bad, good := r.worker(), r.worker()
	first := bad.waits(t.Context())
	second := good.waits(t.Context())
	r.do("DELETE", "/calc/zpe/compute/servers/"+bad.id, nil, bearer(adminToken)...)
	id := r.submit()
	refused(t, <-first, 403, wire.TokenRevoked)
	if g := decode[wire.LeaseResponse](t, <-second); g.JobID != id {
		t.Errorf("got %+v", g)
	}
}

func TestZ48EveryJobFindsAWaiterUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.JobPollEvery, r.plane.Period = time.Hour, time.Hour })
	const workers, jobs = 8, 160
	var done atomic.Int32
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range workers {
		w := r.worker()
		all.Go(func() {
			for ctx.Err() == nil {
				a, err := w.try(ctx, "POST", wire.PathLease, map[string]any{"wait_seconds": 30}, bearer(w.token)...)
				if err != nil || a.status != http.StatusOK {
					continue
				}
				if done.Add(1) == jobs {
					cancel()
				}
			}
		})
	}
	for range jobs {
		r.submit()
	}
	all.Wait()
	if done.Load() != jobs {
		t.Errorf("%d of %d jobs were leased", done.Load(), jobs)
	}
}

func TestZ49SwitchesStopLeasesAndSubmissionsButNotReports(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.JobPollEvery = 20 * time.Millisecond })
	w := r.worker()
	ops := func(body string) wire.OpsResponse {
		t.Helper()
		return decode[wire.OpsResponse](t, r.do("PUT", wire.PathOps, body, bearer(adminToken)...))
	}
	id := r.submit()
	r.submit()
	g := w.lease()
	if o := ops(`{"dequeue_enabled":false}`); *o.DequeueEnabled || !*o.SubmissionEnabled {
		t.Errorf("switches: %+v", o)
	}
	if a := w.post(wire.PathLease, map[string]any{"wait_seconds": 0.1}); a.status != 204 {
		t.Errorf("lease: %d %s", a.status, a.body)
	}
	decode[wire.HeartbeatResponse](t, w.report("heartbeat", id, map[string]any{"lease_id": g.LeaseID}))
	decode[wire.ReportResponse](t, w.report("result", id, done(g.LeaseID)))
	waits := w.waits(t.Context())
	ops(`{"dequeue_enabled":true,"submission_enabled":false}`)
	decode[wire.LeaseResponse](t, <-waits)
	refused(t, r.do("POST", wire.PathJobs, `{}`), 503, wire.SubmissionDisabled)
	if o := decode[wire.OpsResponse](t, r.do("GET", wire.PathOps, nil, bearer(adminToken)...)); *o.SubmissionEnabled || !*o.DequeueEnabled {
		t.Errorf("switches: %+v", o)
	}
	for _, bad := range []string{`{"dequeue":false}`, `{"dequeue_enabled":"no"}`, ``, `{"Dequeue_Enabled":false}`} {
		refused(t, r.do("PUT", wire.PathOps, bad, bearer(adminToken)...), 400, wire.InvalidPayload)
	}
}

func TestWorkerHasAShareOfLeasesAndOfRequestsThatWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.queue.MaxLeases = 2; slow(r) })
	greedy, other := r.worker(), r.worker()
	first, second := greedy.waits(t.Context()), greedy.waits(t.Context())
	if a := greedy.post(wire.PathLease, map[string]any{"wait_seconds": 30}); a.status != 204 || a.header.Get("Retry-After") == "" {
		t.Errorf("a third request that waits: %d %v", a.status, a.header)
	}
	third := other.waits(t.Context())
	for range 3 {
		r.submit()
	}
	for _, waits := range []<-chan answer{first, second, third} {
		decode[wire.LeaseResponse](t, <-waits)
	}
	r.submit()
	if a := greedy.post(wire.PathLease, nil); refused(t, a, 429, wire.TooManyLeases) == "" || a.header.Get("Retry-After") != "5" {
		t.Errorf("a third lease: %v", a.header)
	}
	other.lease()
}
