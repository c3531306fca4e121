package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// queuedPatience is how long a job that is waited for may be queued until it is looked, once, whether
// there is anything that would run it.
const queuedPatience = 5 * time.Second

// whyQueued says why no worker of the fleet takes jobs of a kind, which may be empty, and what to do
// about it. It says nothing if one does, and if that cannot be found out.
func whyQueued(ctx context.Context, st *status.Store, kind jobs.Kind) string {
	since, err := st.Draining(ctx)
	if err == nil && since != "" {
		return "the fleet is drained, so its workers take no jobs: `batchfleet run start` lets them; waiting"
	}
	workers, err := st.Workers(ctx)
	if err != nil {
		return ""
	}
	for _, w := range workers {
		if state := w.State(); (state == "idle" || state == "working") && (kind == "" || slices.Contains(w.Kinds, kind)) {
			return ""
		}
	}
	of := ""
	if kind != "" {
		of = fmt.Sprintf(" of kind %s", kind)
	}
	return "no worker takes jobs" + of + ": `batchfleet worker` starts one, `batchfleet workers` lists them; waiting"
}

// whyQueued says that no worker may lease from the gateway, if it lets this caller know.
func (c *connection) whyQueued(ctx context.Context) string {
	workers, _, err := c.gateway().Workers(ctx)
	if err != nil {
		return ""
	}
	for _, w := range workers {
		if gatewayWorker(w).State != "revoked" {
			return ""
		}
	}
	return "no worker is registered with the gateway: `batchfleet workers enroll` makes a token that lets one register; waiting"
}

// afterwards calls do in a goroutine after a time, unless the function that it returns is called
// before. That ends do's context and waits for it.
func afterwards(ctx context.Context, after time.Duration, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(after):
			do(ctx)
		}
	})
	return func() { cancel(); waiting.Wait() }
}
