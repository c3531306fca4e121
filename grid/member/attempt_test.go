package member_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestG40OnlyLongJobsAreAccepted(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Duration(job.ID[len(job.ID)-1]-'0') * 100 * time.Millisecond)
			return ok(job, "")
		})
		l.heard()
		l.assign(2, 12) // 200 ms
		time.Sleep(time.Second)
		want(r, "a short job", l.heard(wire.Accept, wire.AckJob), "AckJob 2 as 12 OK")
		l.assign(3, 13)
		time.Sleep(249 * time.Millisecond)
		want(r, "before 250 ms", l.heard(wire.Accept), "")
		time.Sleep(time.Second)
		want(r, "a longer job", l.heard(wire.Accept, wire.AckJob), "Accept 3 as 13; AckJob 3 as 13 OK")
	})
}

func TestG40WaitingJobIsAccepted(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(untilStopped)
		l.heard()
		l.assignEach(1, 2, 3)
		time.Sleep(time.Second)
		want(r, "accepts", l.heard(wire.Accept), "Accept 1 as 11; Accept 2 as 12; Accept 3 as 13")
		want(r, "started", r.started(), "01 02")
	})
}

func TestG40RenewListsJobsInHand(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(untilStopped)
		l.assign(1, 11)
		l.assign(2, 12)
		l.heard()
		time.Sleep(30*time.Second + 5*time.Millisecond)
		want(r, "in 30 s", l.heard(wire.Renew), strings.TrimSuffix(strings.Repeat("Renew seen 2 limit 2 1 as 11 2 as 12; ", 3), "; "))
	})
}

func TestG44ResultHasNewestAttempt(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Second)
			return ok(job, "")
		})
		l.heard()
		l.assign(1, 11)
		l.assign(1, 12)
		l.cancel(1, 11, wire.ReasonLost) // the first one, which is the other one by now
		time.Sleep(2 * time.Second)
		want(r, "result", l.heard(wire.AckJob), "AckJob 1 as 12 OK")
	})
}

func TestG44OriginalLeaderIsServed(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.features = nil
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Second)
			return ok(job, "")
		})
		l.assign(1, 0)
		time.Sleep(time.Hour)
		all := []wire.Type{wire.HelloWorker, wire.Credit, wire.AckJob, wire.Accept, wire.Renew, wire.Ping, wire.Drain, wire.Error}
		want(r, "it is told", l.heard(all...), "HelloWorker job.assign.* of 2; Credit 2; AckJob 1 as 0 OK; Credit 1")
		if n := l.connections(); n != 1 {
			r.Errorf("%d connections, want one", n)
		}
		want(r, "what is undelivered", r.undelivered(), "")
		l.assign(2, 0)
		r.stop()
		want(r, "the drain", l.heard(all...), "AckJob 2 as 0 OK")
	})
}

func TestCancelStopsAJob(t *testing.T) {
	tests := []struct {
		name, reason, want string
		slots              int
	}{
		{"one that runs", wire.ReasonCanceled, "AckJob 1 as 11 FAILED canceled; Credit 1", 1},
		{"one that waits for a loop that is not ready", wire.ReasonCanceled, "AckJob 1 as 11 FAILED canceled", 0},
		{"one that another worker has", wire.ReasonLost, "Credit 1", 1},
		{"one that waits for it and another worker has", wire.ReasonLost, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, 1, func(r *rig) {
				l := r.leaders[0]
				if tt.slots == 0 {
					r.worker.Checks = map[string]func(context.Context) error{"never": func(context.Context) error { return errors.New("not ready") }}
				}
				r.start(untilStopped)
				l.heard()
				l.assign(1, 11)
				l.cancel(1, 11, tt.reason)
				time.Sleep(2 * time.Second)
				want(r, "the leader is told", l.heard(wire.AckJob, wire.Credit), tt.want)
				l.cancel(1, 11, tt.reason) // it is over
				l.cancel(77, 0, tt.reason) // and this never was
				want(r, "and then", l.heard(wire.AckJob, wire.Credit), "")
			})
		})
	}
}
