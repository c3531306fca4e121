package control_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// everyRoute calls all routes that need Redis.
func (w worker) everyRoute(job, lease string) map[string]answer {
	w.t.Helper()
	admin := bearer(adminToken)
	return map[string]answer{
		"submit":    w.do("POST", wire.PathJobs, `{}`),
		"job":       w.do("GET", "/calc/zpe/jobs/"+job, nil),
		"read":      w.do("GET", "/calc/zpe/jobs/"+job+"/result", nil),
		"files":     w.do("GET", "/calc/zpe/jobs/"+job+"/files?kind=freqs", nil),
		"cancel":    w.do("POST", "/calc/zpe/jobs/"+job+"/cancel", nil),
		"lease":     w.post(wire.PathLease, map[string]any{"wait_seconds": 1}),
		"heartbeat": w.report("heartbeat", job, map[string]any{"lease_id": lease}),
		"result":    w.report("result", job, done(lease)),
		"failed":    w.report("failed", job, broken(lease, "X")),
		"bad body":  w.report("failed", job, `{`),
		"register":  w.do("POST", wire.PathRegister, wire.RegisterRequest{Token: "zpe_x"}),
		"enroll":    w.do("POST", wire.PathEnrollTokens, nil, admin...),
		"revoke":    w.do("DELETE", "/calc/zpe/compute/servers/w", nil, admin...),
		"dlq":       w.do("GET", wire.PathDLQ, nil, admin...),
		"requeue":   w.do("POST", wire.PathDLQ+"/"+job+"/requeue", nil, admin...),
		"drop":      w.do("DELETE", wire.PathDLQ+"/"+job, nil, admin...),
		"late":      w.do("GET", "/calc/zpe/admin/jobs/"+job+"/late", nil, admin...),
		"accept":    w.do("POST", "/calc/zpe/admin/jobs/"+job+"/late/accept", nil, admin...),
		"ops":       w.do("GET", wire.PathOps, nil, admin...),
		"set ops":   w.do("PUT", wire.PathOps, `{"dequeue_enabled":true}`, admin...),
	}
}

func TestZ07Z83RedisDownIs503OnEveryRouteAndNamesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	r.redis.Kill()
	for name, a := range w.everyRoute(id, g.LeaseID) {
		if m := refused(t, a, 503, wire.Unavailable); m != "The gateway cannot reach its database; try again later" {
			t.Errorf("%s says %q", name, m)
		}
		if a.header.Get("Retry-After") != "5" {
			t.Errorf("%s: Retry-After is %q", name, a.header.Get("Retry-After"))
		}
		all := a.body
		for k, v := range a.header {
			all += k + strings.Join(v, " ")
		}
		for _, inside := range []string{r.redis.Addr(), "127.0.0.1", "redis", "dial", "refused"} {
			if strings.Contains(strings.ToLower(all), inside) {
				t.Errorf("%s says %q: %s", name, inside, all)
			}
		}
	}
	if r.queue.Check(t.Context()) == nil {
		t.Error("ready without Redis")
	}
	r.redis.Start()
	until(t, "Redis is back", func() bool { return r.queue.Check(t.Context()) == nil })
	until(t, "the result is taken", func() bool { return w.report("result", id, done(g.LeaseID)).status == 200 })
	if j := r.job(id); j.Status != "finished" {
		t.Errorf("job: %+v", j)
	}
}

func TestZ07FrozenRedisIs503InTimeAndWaitersGoOnAfterwards(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	// Only what is to meet the frozen Redis has little patience.
	r := newRig(t, func(r *rig) { r.plane.JobPollEvery, r.queue.CallTimeout = 20*time.Millisecond, 5*time.Second })
	quick := newRigOn(t, r.redis, func(r *rig) { r.queue.CallTimeout = 300 * time.Millisecond })
	w := r.worker()
	waits := w.waits(t.Context())
	r.redis.Freeze()
	began := time.Now()
	refused(t, worker{quick, w.id, w.token}.post(wire.PathLease, nil), 503, wire.Unavailable)
	refused(t, quick.do("GET", "/calc/zpe/jobs/x", nil), 503, wire.Unavailable)
	if took := time.Since(began); took > 30*time.Second { // the client of Redis would wait for a minute
		t.Errorf("two answers took %s", took)
	}
	until(t, "the one that waits has met it, too", func() bool { return len(r.logged("cannot look for jobs")) > 0 })
	r.redis.Resume()
	until(t, "Redis is back", func() bool { return r.queue.Check(t.Context()) == nil })
	id := r.submit()
	if g := decode[wire.LeaseResponse](t, <-waits); g.JobID == "" || id == "" {
		t.Errorf("the one that waited got %+v", g)
	}
}

func TestScriptFlushGoesUnnoticed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	flush := func() {
		t.Helper()
		if err := r.rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	id := r.submit()
	flush()
	g := w.lease()
	flush()
	decode[wire.HeartbeatResponse](t, w.report("heartbeat", id, map[string]any{"lease_id": g.LeaseID}))
	flush()
	decode[wire.ReportResponse](t, w.report("result", id, done(g.LeaseID)))
	flush()
	w.worker()
}

func TestZ70ReaperWorksWithoutAnyWorker(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	r := newRig(t, func(r *rig) { r.plane.Period = 3 * time.Second }) // which a round may take, too
	w := r.worker()
	id := r.submit()
	w.lease()
	r.ahead.Store(int64(11 * time.Minute))
	until(t, "the lease is taken back", func() bool { return r.job(id).Status == "queued" })
	r.ahead.Add(int64(21 * time.Second))
	until(t, "the job is in the queue", func() bool { return r.rdb.LLen(t.Context(), "zpe:queue").Val() == 1 })
	if !strings.Contains(r.log.String(), `"lease taken back"`) {
		t.Error("the log says nothing of it")
	}
}

func TestZ41OneRoundTripForALeaseAndOneForAResult(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.JobPollEvery, r.plane.Period = time.Hour, time.Hour })
	w := r.worker()
	r.submit()
	r.submit()
	g := w.lease()
	w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID})
	w.report("result", g.JobID, done(g.LeaseID)) // the scripts are known now
	perCall := func(f func()) int64 {
		t.Helper()
		before := r.rdb.Info(t.Context(), "commandstats").Val()
		f()
		after := r.rdb.Info(t.Context(), "commandstats").Val()
		return evals(after) - evals(before)
	}
	if n := perCall(func() { g = w.lease() }); n != 1 {
		t.Errorf("a lease took %d calls", n)
	}
	if n := perCall(func() { w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID}) }); n != 1 {
		t.Errorf("a heartbeat took %d calls", n)
	}
	if n := perCall(func() { w.report("result", g.JobID, done(g.LeaseID)) }); n != 1 {
		t.Errorf("a result took %d calls", n)
	}
}

// evals returns how often a script was called, by INFO commandstats.
func evals(info string) (n int64) {
	for line := range strings.SplitSeq(info, "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_eval"); ok {
			_, v, _ := strings.Cut(rest, ":calls=")
			v, _, _ = strings.Cut(v, ",")
			c, _ := strconv.ParseInt(v, 10, 64)
			n += c
		}
	}
	return n
}

func TestZ19Z83NoTokenAndNoAddressLeaksAnywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.plane.ClientToken = "client-canary-99"
		r.plane.Period = 50 * time.Millisecond
	})
	client := bearer("client-canary-99")
	var heard strings.Builder // every answer but those that hand out a token
	say := func(as ...answer) {
		for _, a := range as {
			heard.WriteString(a.body)
			for k, v := range a.header {
				heard.WriteString(k + ": " + strings.Join(v, " ") + "\n")
			}
		}
	}
	enroll, spare := r.enroll(), r.enroll()
	a := decode[wire.RegisterResponse](t, r.do("POST", wire.PathRegister, wire.RegisterRequest{Token: enroll, Name: "lab"}))
	w := worker{r, a.WorkerID, a.WorkerToken}
	b := decode[wire.RegisterResponse](t, w.post(wire.PathRegister, nil))
	say(r.do("POST", wire.PathRegister, wire.RegisterRequest{Token: enroll}))
	submit := func() {
		say(r.do("POST", wire.PathJobs, `{"x":1}`, client...))
	}
	for range 3 {
		submit()
	}
	g := w.lease()
	say(w.report("result", g.JobID, done(g.LeaseID)), w.report("result", g.JobID, `{"lease_id":"`+w.token+`"}`), w.report("heartbeat", w.token, `{`))
	g = w.lease()
	say(w.report("failed", g.JobID, broken(g.LeaseID, "X")))
	for _, answer := range w.everyRoute("x", "y") {
		if !strings.Contains(answer.body, "zpe_") { // the answer of enroll
			say(answer)
		}
	}
	for _, h := range [][]string{bearer(spare), {"Authorization", "Basic " + w.token}, {"Authorization", "Bearer " + w.token + " x"}} {
		say(r.do("POST", wire.PathLease+"?token="+w.token, `{"worker_id":"x"}`, h...), r.do("GET", "/"+w.token, nil, h...))
	}
	say(w.post(wire.PathLease, map[string]any{"worker_id": w.token}), r.do("DELETE", "/calc/zpe/compute/servers/"+w.id, nil, bearer(adminToken)...), w.post(wire.PathLease, nil))
	redisText, logText, metricText := r.dump(), r.log.String(), r.scrape()
	r.redis.Kill()
	for _, answer := range w.everyRoute("x", "y") {
		say(answer)
	}
	places := map[string]string{"Redis": redisText, "the log": logText + r.log.String(), "metrics": metricText + r.scrape(), "answers": heard.String()}
	for secret, value := range map[string]string{
		"worker token": w.token, "rotated token": b.WorkerToken, "enroll token": enroll, "spare enroll token": spare, "admin token": adminToken, "client token": "client-canary-99",
	} {
		for place, text := range places {
			if strings.Contains(text, value) || strings.Contains(text, strings.TrimPrefix(strings.TrimPrefix(value, "zpw_"), "zpe_")) {
				t.Errorf("%s holds the %s", place, secret)
			}
			if place != "Redis" && strings.Contains(text, queue.HashToken(value)) {
				t.Errorf("%s holds the hash of the %s", place, secret)
			}
		}
	}
	for _, place := range []string{"metrics", "answers"} {
		if strings.Contains(places[place], r.redis.Addr()) {
			t.Errorf("%s name Redis", place)
		}
	}
	for _, id := range []string{w.id, g.JobID} {
		if strings.Contains(places["metrics"], id) {
			t.Errorf("metrics hold %s", id)
		}
	}
	if !strings.Contains(redisText, queue.HashToken(w.token)) {
		t.Error("the scan does not see what it should: the hash of the token is not in Redis")
	}
}

// atRedis tells when a script is about to run that has an argument with this in it.
type atRedis struct {
	named string
	begun chan<- struct{}
}

func (h atRedis) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h atRedis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h atRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && strings.Contains(fmt.Sprint(cmd.Args()), h.named) {
			select {
			case h.begun <- struct{}{}:
			default:
			}
		}
		return next(ctx, cmd)
	}
}

// callOff sends a request while Redis is frozen and calls it off before it goes
// on: the gateway's script runs when no caller waits for its reply any more.
func (w worker) callOff(path string, body any) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	gone := make(chan struct{})
	came, begun := make(chan context.Context, 1), make(chan struct{}, 1)
	w.rdb.AddHook(atRedis{queue.HashToken(w.token), begun})
	w.came.Store(&came)
	defer w.came.Store(nil)
	w.redis.Freeze()
	go func() {
		defer close(gone)
		_, _ = w.try(ctx, "POST", path, body, bearer(w.token)...)
	}()
	served := <-came
	<-begun
	cancel()
	<-gone
	<-served.Done() // the gateway sees that, too
	w.redis.Resume()
}

func TestZ42LeaseOfOneWhoHasHungUpGoesBackOrIsSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.worker()
	w.post(wire.PathLease, nil) // Redis knows the script now
	id := r.submit()
	w.callOff(wire.PathLease, nil)
	until(t, "the job is back", func() bool { return strings.Contains(r.job(id).Detail, "the worker has gone") })
	if j := r.job(id); j.Status != "queued" || j.RetryCount != 0 {
		t.Errorf("job: %+v", j)
	}
	ask := map[string]any{"request_id": "r1"}
	w.callOff(wire.PathLease, ask)
	until(t, "the job is leased", func() bool { return r.job(id).Status == "started" })
	if g := decode[wire.LeaseResponse](t, w.post(wire.PathLease, ask)); g.JobID != id {
		t.Errorf("got %+v", g)
	}
}

func TestZ50ResultOfOneWhoHasHungUpIsRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w, g := r.leased()
	id := g.JobID
	w.callOff("/calc/zpe/compute/jobs/"+id+"/result", done(g.LeaseID))
	until(t, "the job has finished", func() bool { return r.job(id).Status == "finished" })
	if a := w.report("result", id, done(g.LeaseID)); a.body != `{"ok":true,"idempotent":true}` {
		t.Errorf("again: %d %s", a.status, a.body)
	}
}
