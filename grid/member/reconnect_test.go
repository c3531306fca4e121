package member_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

func TestG52SilentLeaderEndsConnection(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(untilStopped)
		time.Sleep(10 * time.Minute) // pings keep it
		if n := l.connections(); n != 1 {
			r.Fatalf("%d connections, want one", n)
		}
		l.freeze()
		time.Sleep(35 * time.Second)
		if n := l.connections(); n != 2 || !strings.Contains(r.log.String(), "the peer is silent") {
			r.Errorf("%d connections, want another one after 30 s of silence", n)
		}
	})
}

func TestG56RunningJobsOutlastAConnection(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Duration(job.ID[len(job.ID)-1]-'0') * time.Minute)
			return ok(job, "4")
		})
		l.assign(1, 11)
		l.assign(5, 15)
		l.heard()
		l.goDown()
		time.Sleep(3 * time.Minute) // the first one ends meanwhile
		l.up()
		time.Sleep(time.Minute)
		want(r, "after the reconnect", l.heard(wire.HelloWorker, wire.Credit, wire.AckJob),
			"HelloWorker job.assign.* of 2 1 as 11 5 as 15; AckJob 1 as 11 OK 4; Credit 1")
		time.Sleep(2 * time.Minute)
		want(r, "then", l.heard(wire.Credit, wire.AckJob), "AckJob 5 as 15 OK 4; Credit 1")
		want(r, "started", r.started(), "01 05")
	})
}

func TestG56ResultIsSentUntilAcknowledged(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.keeps = true
		r.start(answer)
		l.assign(1, 11)
		want(r, "first", l.heard(wire.AckJob, wire.Credit), "Credit 2; AckJob 1 as 11 OK 4; Credit 1")
		l.hangUp()
		l.mu.Lock()
		l.keeps = false
		l.mu.Unlock()
		time.Sleep(time.Second)
		want(r, "again", l.heard(wire.HelloWorker, wire.AckJob, wire.Credit), "HelloWorker job.assign.* of 2 1 as 11; Credit 1; AckJob 1 as 11 OK 4; Credit 1")
		want(r, "what is undelivered", r.undelivered(), "")
		l.hangUp()
		time.Sleep(2 * time.Second)
		want(r, "and then", l.heard(wire.HelloWorker, wire.AckJob), "HelloWorker job.assign.* of 2")
	})
}

func TestG56ReconnectJitter(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.down = true
		r.start(answer)
		time.Sleep(10 * time.Minute)
		dials := l.dialed()
		for i := 1; i < len(dials); i++ {
			planned := min(0.5*float64(int(1)<<min(i-1, 10)), 30)
			if got := dials[i].Sub(dials[i-1]).Seconds(); got < planned*0.8-0.01 || got > planned*1.2+0.01 {
				r.Errorf("wait %d is %gs, want %gs give or take a fifth", i, got, planned)
			}
		}
		if len(dials) < 20 {
			r.Errorf("%d dials in 10 min", len(dials))
		}
		l.up()
		time.Sleep(2 * time.Minute)
		l.dialed()
		l.hangUp()
		time.Sleep(time.Second)
		if n := len(l.dialed()); n != 1 {
			r.Errorf("%d dials in a second after a stable connection, want one", n)
		}
		l.goDown()
		l.up()
		time.Sleep(999 * time.Millisecond)
		if n := len(l.dialed()); n > 1 {
			r.Errorf("%d dials soon after a short connection", n)
		}
	})
}

func TestG56JobsStopAfterKeepRunning(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.member.KeepRunning = 2 * time.Minute
		stopped := make(chan time.Duration, 1)
		began := time.Now()
		r.start(func(ctx context.Context, job jobs.Job) (jobs.Result, error) {
			<-ctx.Done()
			stopped <- time.Since(began)
			return jobs.Result{}, context.Cause(ctx)
		})
		l.assign(1, 11)
		time.Sleep(5 * time.Minute) // the leader is there
		l.goDown()
		time.Sleep(119 * time.Second)
		select {
		case <-stopped:
			r.Error("the job was stopped sooner")
		default:
		}
		time.Sleep(3 * time.Second)
		select {
		case <-stopped:
		default:
			r.Error("the job still runs")
		}
		l.heard()
		l.up()
		time.Sleep(2 * time.Minute)
		want(r, "then", l.heard(wire.HelloWorker, wire.Credit, wire.AckJob), "HelloWorker job.assign.* of 2; Credit 2")
	})
}

func TestG56WorkerRefusedByAllLeadersEnds(t *testing.T) {
	test(t, 1, func(r *rig) {
		r.leaders[0].refuses = wire.CodeForbidden
		if err := r.member.Open(r.Context()); err != nil {
			r.Fatal(err)
		}
		ctx, stop := context.WithCancel(r.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.member.Run(ctx) }()
		w := &worker.Worker{Source: r.member, Status: r.member, Log: r.logger(), Handlers: map[jobs.Kind]worker.Handler{}}
		limited, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		err := w.Run(limited)
		if err == nil || !strings.Contains(err.Error(), "leader leader0:5000: FORBIDDEN: not you") {
			r.Errorf("the loop ends with %v", err)
		}
		stop()
		<-ended
		if err := r.member.Close(); err != nil {
			r.Error(err)
		}
	})
}

func TestWorkerWithoutLeaderIsNotReady(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(answer)
		time.Sleep(time.Minute)
		if err := r.worker.Ready(); err != nil {
			r.Errorf("it is not ready: %v", err)
		}
		l.goDown()
		time.Sleep(time.Minute)
		if err := r.worker.Ready(); err == nil || !strings.Contains(err.Error(), "dial leader0:5000: connection refused") {
			r.Errorf("without a leader it says %v", err)
		}
		l.up()
		time.Sleep(2 * time.Minute)
		if err := r.worker.Ready(); err != nil {
			r.Errorf("it is not ready: %v", err)
		}
		l.assign(1, 11)
		want(r, "then", l.heard(wire.AckJob), "AckJob 1 as 11 OK 4")
	})
}

func TestG57DrainHandsBackWaitingJobs(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		done := make(chan struct{})
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			<-done
			time.Sleep(time.Duration(job.ID[len(job.ID)-1]-'0') * time.Millisecond) // one after the other
			return ok(job, "4")
		})
		l.heard()
		l.assignEach(1, 2, 3)
		stopped := make(chan struct{})
		go func() { defer close(stopped); r.stop() }()
		synctest.Wait()
		want(r, "at the signal", l.heard(wire.Drain, wire.AckJob, wire.Credit, wire.Cancel), "Cancel 3 as 13 draining; Drain")
		l.assign(4, 14) // it was on its way
		time.Sleep(5 * time.Second)
		want(r, "accepted", l.heard(wire.Accept), "Accept 1 as 11; Accept 2 as 12")
		close(done)
		<-stopped
		want(r, "then", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 11 OK 4; AckJob 2 as 12 OK 4")
		want(r, "started", r.started(), "01 02")
		if n := l.open(); n != 0 {
			r.Errorf("%d connections are open", n)
		}
	})
}

func TestG57UnfinishedJobIsHandedBack(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(untilStopped)
		l.assign(1, 11)
		l.heard()
		r.stop()
		want(r, "it is told", l.heard(wire.Drain, wire.AckJob, wire.Credit, wire.Cancel), "Drain; Cancel 1 as 11 draining")
	})
}

func TestG57DrainOutlastsAConnection(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.worker.Drain = time.Minute
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(30 * time.Second)
			return ok(job, "4")
		})
		l.assign(1, 11)
		stopped := make(chan struct{})
		go func() { defer close(stopped); r.stop() }()
		synctest.Wait()
		l.heard()
		l.hangUp()
		time.Sleep(time.Second)
		want(r, "after a reconnect", l.heard(wire.HelloWorker, wire.Drain, wire.Credit), "HelloWorker job.assign.* of 2 1 as 11; Drain")
		<-stopped
		want(r, "then", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 11 OK 4")
	})
}
