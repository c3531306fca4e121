package member_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestG50EndedJobIsNotRunAgain(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(answer)
		l.heard()
		l.assign(1, 11)
		want(r, "first", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 11 OK 4; Credit 1")
		time.Sleep(29 * time.Minute)
		l.heard()
		l.assign(1, 12)
		want(r, "again", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 12 OK 4; Credit 1")
		want(r, "started", r.started(), "01")
		want(r, "what is undelivered", r.undelivered(), "")
		time.Sleep(time.Minute)
		l.heard()
		l.assign(1, 13)
		want(r, "after half an hour", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 13 OK 4; Credit 1")
		want(r, "started", r.started(), "01 01")
	})
}

func TestG50OnlyRepeatableResultsAreCached(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string // what was started
	}{
		{"a program that has failed", &jobs.Failure{Code: "EXIT", Err: errors.New("exit 3")}, "01"},
		{"no memory", &jobs.Failure{Code: "OOM", Err: errors.New("killed")}, "01 01"},
		{"no reason", errors.New("no such file"), "01 01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test(t, 1, func(r *rig) {
				l := r.leaders[0]
				r.start(func(context.Context, jobs.Job) (jobs.Result, error) { return jobs.Result{}, tt.err })
				l.assign(1, 11)
				l.assign(1, 12)
				want(r, "started", r.started(), tt.want)
			})
		})
	}
}

func TestG50UndeliveredResultIsSentAgain(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		l.keeps = true
		r.start(func(context.Context, jobs.Job) (jobs.Result, error) { return jobs.Result{}, errors.New("no such file") })
		l.heard()
		l.assign(1, 11)
		l.assign(1, 12)
		want(r, "results", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 11 FAILED error; Credit 1; AckJob 1 as 12 FAILED error; Credit 1")
		want(r, "started", r.started(), "01")
		l.send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, id(1), id(2))})
		want(r, "what is undelivered", r.undelivered(), "")
	})
}

func TestG51JobOfTwoLeadersRunsOnce(t *testing.T) {
	test(t, 2, func(r *rig) {
		one, two := r.leaders[0], r.leaders[1]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Minute)
			return ok(job, "4")
		})
		want(r, "the first leader", one.heard(wire.HelloWorker, wire.Credit), "HelloWorker job.assign.* of 1; Credit 1")
		want(r, "the second leader", two.heard(wire.HelloWorker, wire.Credit), "HelloWorker job.assign.* of 1; Credit 1")
		one.assign(1, 11)
		time.Sleep(time.Second)
		two.assign(1, 21)
		want(r, "the second leader", two.heard(wire.Accept), "Accept 1 as 21")
		time.Sleep(time.Minute)
		want(r, "the first leader", one.heard(wire.AckJob, wire.Credit), "AckJob 1 as 11 OK 4; Credit 1")
		want(r, "the second leader", two.heard(wire.AckJob, wire.Credit), "AckJob 1 as 21 OK 4; Credit 1")
		two.assign(1, 22)
		want(r, "later", two.heard(wire.AckJob, wire.Credit), "AckJob 1 as 22 OK 4; Credit 1")
		want(r, "started", r.started(), "01")
		want(r, "what is undelivered", r.undelivered(), "")
	})
}

func TestG51JobStopsWhenAllLeadersCancel(t *testing.T) {
	test(t, 2, func(r *rig) {
		one, two := r.leaders[0], r.leaders[1]
		r.start(untilStopped)
		one.assign(1, 11)
		two.assign(1, 21)
		one.heard()
		two.heard()
		one.cancel(1, 11, wire.ReasonLost)
		time.Sleep(5 * time.Second)
		want(r, "the second leader", two.heard(wire.AckJob, wire.Credit), "")
		two.cancel(1, 21, wire.ReasonCanceled)
		time.Sleep(2 * time.Second)
		want(r, "the first leader", one.heard(wire.AckJob, wire.Credit), "Credit 1")
		want(r, "the second leader", two.heard(wire.AckJob, wire.Credit), "AckJob 1 as 21 FAILED canceled; Credit 1")
	})
}

func TestG51JobGoesOnForSecondLeader(t *testing.T) {
	test(t, 2, func(r *rig) {
		one, two := r.leaders[0], r.leaders[1]
		r.start(func(ctx context.Context, job jobs.Job) (jobs.Result, error) {
			if err := jobs.Sleep(ctx, time.Minute); err != nil {
				return jobs.Result{}, err
			}
			return ok(job, "4")
		})
		one.assign(1, 11)
		two.assign(1, 21)
		one.cancel(1, 11, wire.ReasonCanceled)
		time.Sleep(2 * time.Minute)
		want(r, "the first leader", one.heard(wire.AckJob), "AckJob 1 as 11 OK 4")
		want(r, "the second leader", two.heard(wire.AckJob), "AckJob 1 as 21 OK 4")
	})
}
