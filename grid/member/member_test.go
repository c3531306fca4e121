package member_test

import (
	"context"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestG11G34AWorkerGreetsWithItsPatternAndOneCreditForEachSlot(t *testing.T) {
	test(t, 1, func(r *rig) {
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) { return ok(job, "4") })
		l := r.leaders[0]
		want(t, "hello", l.heard(wire.HelloWorker, wire.Credit), "HelloWorker job.assign.* of 2; Credit 2")
		l.assign(1, 11)
		want(t, "the end of a job", l.heard(wire.AckJob, wire.Credit, wire.Accept), "AckJob 1 as 11 OK 4; Credit 1")
		time.Sleep(time.Minute)
		want(t, "while nothing happens", l.heard(wire.AckJob, wire.Credit, wire.Accept), "")
	})
}
