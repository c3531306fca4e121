package worker

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

// The race detector sees a server that asks for health before Run has begun.
func TestReadyMayBeAskedBeforeRunAndBesideIt(t *testing.T) {
	w := &Worker{Log: slog.New(slog.DiscardHandler), Source: idleSource{}}
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	ready := make(chan struct{})
	asking.Go(func() {
		for w.Ready() != nil {
			runtime.Gosched()
		}
		close(ready)
	})
	asking.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-ready
	stop()
	asking.Wait()
}

// idleSource is a source that has no jobs.
type idleSource struct{ Source }

func (idleSource) Lease(ctx context.Context) (lease jobs.Lease, err error) {
	<-ctx.Done()
	return lease, context.Cause(ctx)
}
