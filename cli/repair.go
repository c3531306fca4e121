package cli

import (
	"context"
	"log/slog"
	"sync"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/metrics"
	"github.com/batchfleet/batchfleet/operations/delayed"
	"github.com/batchfleet/batchfleet/operations/repair"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker"
)

// startRepair has a worker look now and then for jobs that Redis has forgotten, and publish delayed
// jobs that are due, until the returned function is called.
func (e *WorkerEnv) startRepair(ctx context.Context, w *worker.Worker, log *slog.Logger) (stop func(), err error) {
	store, err := e.openStorage(ctx)
	if err != nil {
		return nil, err
	}
	st, redis := e.openStatus(2)
	publisher := &latePublisher{open: func() (*pubsub.Publisher, error) { return e.openPublisher(ctx) }}
	r, closer := &repair.Repair{Status: st, Store: store, Publish: publisher.Publish, Log: log}, closers{publisher, redis}
	if topic := e.names().topic; topic.err != nil {
		log.WarnContext(ctx, "repair cannot publish, it only records stored results", "repair_interval", e.Repair.D(), "err", topic.err)
		r.Publish = nil
	}
	r.Status.Worker, r.Dir = settings.WorkerName(e.Name), e.WorkDir
	repaired := metrics.In(w.Metrics.Registry, "batchfleet_").Counters("jobs_repaired_total",
		"Jobs that Redis had forgotten, by what was done: recorded as completed, or published again.", "done")
	r.Found = func(f redisdb.Finding) {
		switch {
		case f.Done == "":
		case f.Kind == status.Waiting:
			repaired.WithLabelValues("published").Inc()
		default:
			repaired.WithLabelValues("recorded").Inc()
		}
	}
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	if e.Repair != 0 {
		running.Go(func() { r.Run(ctx, e.Repair.D()) })
	}
	if r.Publish != nil {
		later := &delayed.Promoter{Status: st, Publish: r.Publish, Log: log}
		running.Go(func() { later.Run(ctx) })
	}
	return func() {
		end()
		running.Wait()
		_ = closer.Close() // nothing was left to be sent
	}, nil
}
