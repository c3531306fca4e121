package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	batch "github.com/batchfleet/batchfleet/worker"
)

// listens sends a heartbeat that waits for 30 s, and returns once it does.
func (w worker) listens(ctx context.Context, g wire.LeaseResponse, says ...string) <-chan answer {
	w.t.Helper()
	before, c := w.listening(), make(chan answer, 1)
	go func() {
		a, err := w.try(ctx, "POST", "/calc/zpe/compute/jobs/"+g.JobID+"/heartbeat",
			map[string]any{"lease_id": g.LeaseID, "wait_seconds": 30, "message": strings.Join(says, " ")}, bearer(w.token)...)
		if err != nil {
			a.body = err.Error()
		}
		c <- a
	}()
	until(w.t, "the heartbeat waits", func() bool { return w.listening() > before })
	return c
}

func (r *rig) listening() float64 { return r.metric("batchfleet_gateway_heartbeats_waiting") }

// canceledAt puts word of a cancel where gateways look for it, with a time that is
// so far from now by the clock of Redis.
func (r *rig) canceledAt(id string, from time.Duration) {
	r.t.Helper()
	const script = `local now = redis.call('TIME')
		return redis.call('ZADD', KEYS[1], now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[1], ARGV[2])`
	if err := r.rdb.Eval(r.t.Context(), script, []string{"zpe:cancels"}, from.Milliseconds(), id).Err(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) cancel(id string) answer {
	r.t.Helper()
	return r.do("POST", "/calc/zpe/jobs/"+id+"/cancel", nil)
}

// leased is a worker with a lease on a job.
func (r *rig) leased() (worker, wire.LeaseResponse) {
	r.t.Helper()
	w := r.worker()
	r.submit()
	return w, w.lease()
}

// slow is a gateway that looks at nothing by itself.
func slow(r *rig) {
	r.plane.JobPollEvery, r.plane.Period, r.plane.CancelPollEvery = time.Hour, time.Hour, time.Hour
}

func TestJ14CancelHereWakesTheHeartbeatThatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w, g := r.leased()
	waits, twice := w.listens(t.Context(), g), w.listens(t.Context(), g)
	other, og := r.leased()
	others := other.listens(t.Context(), og)
	if a := r.cancel(g.JobID); a.status != 200 {
		t.Fatal(a)
	}
	for _, c := range []<-chan answer{waits, twice} {
		if a := decode[wire.HeartbeatResponse](t, <-c); !a.CancelRequested || !a.Waited {
			t.Errorf("answered %+v", a)
		}
	}
	select {
	case a := <-others:
		t.Errorf("another job's heartbeat was answered: %+v", a)
	case <-time.After(50 * time.Millisecond):
	}
	// One that comes later need not wait.
	began := time.Now()
	a := decode[wire.HeartbeatResponse](t, w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID, "wait_seconds": 30}))
	if !a.CancelRequested || !a.Waited || time.Since(began) > 10*time.Second {
		t.Errorf("answered %+v after %s", a, time.Since(began))
	}
	r.cancel(og.JobID)
	<-others
	until(t, "no request waits", func() bool { return r.listening() == 0 })
}

func TestJ14CancelByAnotherGatewayWakesTheHeartbeatThatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	other := newRigOn(t, r.redis, slow)
	r.ahead.Store(int64(-3 * time.Minute)) // clocks of gateways differ, that of Redis counts
	for range 3 {                          // and after a time in which no request has waited
		w, g := r.leased()
		waits := w.listens(t.Context(), g)
		began := time.Now()
		other.cancel(g.JobID)
		a := decode[wire.HeartbeatResponse](t, <-waits)
		if took := time.Since(began); !a.CancelRequested || took > 10*time.Second {
			t.Errorf("answered %+v after %s", a, took)
		}
		w.report("failed", g.JobID, broken(g.LeaseID, "CANCELED"))
	}
}

func TestJ14HeartbeatWaitsForAsLongAsItSaysAndNoLonger(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w, g := r.leased()
	began := time.Now()
	a := decode[wire.HeartbeatResponse](t, w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID, "wait_seconds": 0.5}))
	took := time.Since(began).Seconds()
	if took < 0.5 || a.CancelRequested || !a.Waited || a.LeaseTTLSeconds > 599.5 || a.LeaseTTLSeconds < 599.4-took {
		t.Errorf("answered %+v after %v s", a, took)
	}
	if work := r.seconds("batchfleet_gateway_http_request_seconds", "route", wire.PathHeartbeat); work <= 0 || work > took-0.4 {
		t.Errorf("the request is said to have taken %v s of work; it has waited for 0.5 s of %v s", work, took)
	}
	if a := decode[wire.HeartbeatResponse](t, w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID})); a.Waited {
		t.Errorf("a heartbeat that asks for no wait: %+v", a)
	}
	for _, bad := range []any{-1, 30.01, 1e9, "1"} {
		refused(t, w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID, "wait_seconds": bad}), 400, wire.InvalidPayload)
	}
	refused(t, w.report("heartbeat", g.JobID, map[string]any{"lease_id": "another", "wait_seconds": 30}), 409, wire.LeaseLost)
	refused(t, w.report("heartbeat", "01KAJ", map[string]any{"lease_id": "another", "wait_seconds": 30}), 404, wire.JobNotFound)

	waits := w.listens(t.Context(), g)
	began = time.Now()
	r.stop()
	if a := decode[wire.HeartbeatResponse](t, <-waits); a.CancelRequested || time.Since(began) > 20*time.Second {
		t.Errorf("when the server stops: %+v after %s", a, time.Since(began))
	}
}

func TestJ14CancelIsHeardOfAlthoughTheClockOfRedisWasSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { slow(r); r.plane.CancelPollEvery = 5 * time.Millisecond })
	w, g := r.leased()
	waits := w.listens(t.Context(), g)
	for range 2 { // it has looked before
		r.rdb.ConfigResetStat(t.Context())
		until(t, "it looks", func() bool { return r.looks() > 0 })
	}
	r.rdb.HSet(t.Context(), "zpe:status:"+g.JobID, "cancel_requested", "1")
	r.canceledAt(g.JobID, -control.ClockStep/2)
	if a := decode[wire.HeartbeatResponse](t, <-waits); !a.CancelRequested {
		t.Errorf("answered %+v", a)
	}
}

func TestJ14CancelWhoseAnswerIsLostWakesTheHeartbeatAllTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w, g := r.leased()
	waits := w.listens(t.Context(), g)
	r.rdb.HSet(t.Context(), "zpe:status:"+g.JobID, "cancel_requested", "1") // it was done
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.plane.Cancel(ctx, jobs.ID(g.JobID)); err == nil {
		t.Fatal("a cancel without an answer is no error")
	}
	if a := decode[wire.HeartbeatResponse](t, <-waits); !a.CancelRequested {
		t.Errorf("answered %+v", a)
	}
}

func TestJ14AHeartbeatThatWaitsTellsNothingTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w, g := r.leased()
	waits := w.listens(t.Context(), g, "page 1")
	w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID, "message": "page 2"})
	r.cancel(g.JobID)
	<-waits
	if j := r.job(g.JobID); j.Detail != "page 2" {
		t.Errorf("the job says %q", j.Detail)
	}
}

// justAfter calls do once, when a call of Redis that names something has returned.
type justAfter struct {
	named string
	do    func()
}

func (h justAfter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h justAfter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h justAfter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	var once sync.Once
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.Contains(fmt.Sprint(cmd.Args()), h.named) { // it is an error that Redis does not know the script yet
			once.Do(h.do)
		}
		return err
	}
}

func TestJ14CancelRightAfterAHeartbeatHasAskedIsHeardOf(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w, g := r.leased()
	canceled := errors.New("it was not asked for")
	r.rdb.AddHook(justAfter{named: g.LeaseID, do: func() { _, canceled = r.plane.Cancel(t.Context(), jobs.ID(g.JobID)) }})
	a := decode[wire.HeartbeatResponse](t, w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID, "wait_seconds": 30}))
	if canceled != nil || !a.CancelRequested {
		t.Errorf("answered %+v; cancel: %v", a, canceled)
	}
}

// looks returns how many lines Redis has on looks for canceled jobs.
func (r *rig) looks() (n int) {
	for line := range strings.SplitSeq(r.rdb.Info(r.t.Context(), "commandstats").Val(), "\n") {
		if strings.HasPrefix(line, "cmdstat_zrangebyscore:") {
			n++
		}
	}
	return n
}

func TestJ14OldWordOfACancelEndsNoWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.CancelPollEvery = 10 * time.Millisecond })
	w, g := r.leased()
	r.rdb.ZAdd(t.Context(), "zpe:cancels", redis.Z{Score: float64(time.Now().UnixMilli()), Member: g.JobID}) // of an earlier life of the job
	began := time.Now()
	a := decode[wire.HeartbeatResponse](t, w.report("heartbeat", g.JobID, map[string]any{"lease_id": g.LeaseID, "wait_seconds": 0.5}))
	if a.CancelRequested || time.Since(began) < time.Second/2 {
		t.Errorf("answered %+v after %s", a, time.Since(began))
	}
	// One that has lost its lease while it waits is told so.
	waits := w.listens(t.Context(), g)
	w.report("result", g.JobID, done(g.LeaseID))
	r.canceledAt(g.JobID, 5*time.Millisecond)
	refused(t, <-waits, 409, wire.LeaseLost)
}

func TestJ14TooManyListenersAreAnsweredAtOnceAndSuchAsHaveGoneMakeRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.plane.MaxWaiting = 2; slow(r) })
	w, g := r.leased()
	ctx, cancel := context.WithCancel(t.Context())
	first := w.listens(ctx, g)
	second := w.listens(t.Context(), g)
	ask := map[string]any{"lease_id": g.LeaseID, "wait_seconds": 30}
	if a := decode[wire.HeartbeatResponse](t, w.report("heartbeat", g.JobID, ask)); a.Waited || a.LeaseTTLSeconds != 600 {
		t.Errorf("one too many: %+v", a)
	}
	cancel()
	<-first
	until(t, "the one that has gone is forgotten", func() bool { return r.listening() == 1 })
	third := w.listens(t.Context(), g)
	r.cancel(g.JobID)
	<-second
	<-third
	until(t, "no request waits", func() bool { return r.listening() == 0 })
	if n := control.ListenedFor(r.plane); n != 0 {
		t.Errorf("%d jobs are remembered although no request waits for them", n)
	}
}

func TestJ14NobodyLooksForCancelsWhileNobodyWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { slow(r); r.plane.CancelPollEvery = 5 * time.Millisecond })
	w, g := r.leased()
	<-time.After(50 * time.Millisecond)
	r.rdb.ConfigResetStat(t.Context())
	<-time.After(50 * time.Millisecond)
	if r.looks() > 0 {
		t.Error("it looks although no request waits")
	}
	waits := w.listens(t.Context(), g)
	until(t, "it looks", func() bool { return r.looks() > 0 })
	r.cancel(g.JobID)
	<-waits
}

func TestJ14DirectHearsOfACancelWhileItWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	plane, err := control.NewDirect(r.queue, "lab-1")
	if err != nil {
		t.Fatal(err)
	}
	id := r.submit()
	g, err := plane.Lease(t.Context(), wire.LeaseRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ask := wire.HeartbeatRequest{LeaseID: g.LeaseID, WaitSeconds: 0.1}
	began := time.Now()
	a, err := plane.Heartbeat(t.Context(), id, ask)
	took := time.Since(began).Seconds()
	if err != nil || a.CancelRequested || !a.Waited || a.LeaseTTLSeconds > g.LeaseTTLSeconds-0.1 || a.LeaseTTLSeconds < g.LeaseTTLSeconds-0.1-took {
		t.Errorf("%+v, %v", a, err)
	}
	ask.WaitSeconds = 31
	if _, err := plane.Heartbeat(t.Context(), id, ask); err == nil {
		t.Error("a wait of 31 s is taken")
	}
	ask.WaitSeconds = 30
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() { r.cancel(id) })
	if a, err := plane.Heartbeat(t.Context(), id, ask); err != nil || !a.CancelRequested || !a.Waited {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestJ14CancelReachesAHandlerWithinTwoSeconds is the whole way: a gateway, an
// agent over HTTP, its worker, and the handler's context.
func TestJ14CancelReachesAHandlerWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it waits for seconds")
	for name, other := range map[string]bool{"by its own gateway": false, "by another gateway": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			at := r
			if other {
				at = newRigOn(t, r.redis, nil)
			}
			var all []time.Duration
			inTime := 0
			stopped := make(chan time.Time, 1)
			started := make(chan jobs.ID, 1)
			stop := r.agent(t, func(ctx context.Context, job jobs.Job) error {
				started <- job.ID
				<-ctx.Done()
				stopped <- time.Now()
				return context.Cause(ctx)
			})
			defer stop()
			// The machine that runs tests may be busy: fewer than half may take longer.
			const runs, most = 15, 8
			for len(all) < runs && inTime < most {
				r.submit()
				id := <-started
				until(t, "the agent listens", func() bool { return r.listening() > 0 })
				began := time.Now()
				at.cancel(string(id))
				took := (<-stopped).Sub(began)
				if all = append(all, took); took <= 2*time.Second {
					inTime++
				}
				until(t, "the job has ended", func() bool { return r.job(string(id)).Status == "failed" })
				if j := r.job(string(id)); j.Detail != "canceled" {
					t.Errorf("%+v", j)
				}
			}
			t.Log(all)
			if inTime < most {
				t.Errorf("it took %v", all)
			}
		})
	}
}

// agent runs a worker with a handler until stop is called.
func (r *rig) agent(t *testing.T, run func(context.Context, jobs.Job) error) (stop func()) {
	t.Helper()
	w, dir, log := r.worker(), t.TempDir(), slog.New(slog.DiscardHandler)
	store, err := storage.NewLocal(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := gateway.SaveToken(token, gateway.Token{WorkerID: w.id, Token: w.token, IssuedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	tokens, err := gateway.OpenTokenFile(token)
	if err != nil {
		t.Fatal(err)
	}
	client, err := gateway.NewClient(gateway.ClientConfig{URL: r.url, Tokens: tokens, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	a := &gateway.Agent{Gateway: client, Kind: "zpe", Store: store, Dir: filepath.Join(dir, "state"), Log: log}
	if err := a.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	work := &batch.Worker{
		Source: a, Status: a, Handlers: map[jobs.Kind]batch.Handler{"zpe": handler(run)}, Log: log,
		Pools: []batch.Pool{{Slots: 1}}, JobTimeout: time.Hour, StallTimeout: time.Hour, Checks: map[string]func(context.Context) error{"state": a.Check},
	}
	ctx, cancel := context.WithCancel(context.Background())
	background, end := context.WithCancel(context.Background())
	var running, agent sync.WaitGroup
	agent.Go(func() { a.Run(background) })
	running.Go(func() {
		if err := work.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return func() {
		cancel()
		running.Wait()
		end()
		agent.Wait()
		client.Close()
		if err := errors.Join(a.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	}
}

type handler func(context.Context, jobs.Job) error

func (h handler) Run(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	return jobs.Result{}, h(ctx, job)
}

func (handler) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

func TestJobHasAShareOfHeartbeatsThatWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	w, g := r.leased()
	var waits []<-chan answer
	for range 4 {
		waits = append(waits, w.listens(t.Context(), g))
	}
	ask := map[string]any{"lease_id": g.LeaseID, "wait_seconds": 30}
	if a := decode[wire.HeartbeatResponse](t, w.report("heartbeat", g.JobID, ask)); a.Waited {
		t.Errorf("one too many: %+v", a)
	}
	other := r.submit()
	if more := w.lease(); more.JobID != other {
		t.Errorf("leased %+v", more)
	} else {
		waits = append(waits, w.listens(t.Context(), more))
	}
	r.cancel(g.JobID)
	r.cancel(other)
	for _, wait := range waits {
		<-wait
	}
}
