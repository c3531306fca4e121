package deadletter

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
)

// onePatience is how long One waits for one more dead letter before it takes those it has for all.
const onePatience = 3 * time.Second

// One queues a job again from its newest dead letter, as [Redrive] does, and drops its dead letters. It returns what was
// done: nothing if the job has no dead letter, or another reader holds it just now; and whether the job is queued.
func One(ctx context.Context, from *pubsub.DeadLetterReader, st *status.Store, publish *pubsub.Publisher, id jobs.ID) (did string, queued bool, err error) {
	ignore := func(string, ...any) {} // what is not handed back comes back by itself
	r := &Redrive{Reader: from.Fresh(), Status: st, Publish: publish, Rate: 1000}
	r.Did = func(_ Item, what string) error {
		did = what
		return nil
	}
	defer HandBack(ctx, r.Reader, ignore)
	err = Keeping(ctx, r.Reader, func() error {
		all, err := Collect(ctx, r.Reader, onePatience, ignore)
		if err != nil {
			return err
		}
		chosen, _, err := r.Choose(ctx, all, []string{string(id)})
		if err != nil {
			return err
		}
		return r.Run(ctx, chosen)
	})
	return did, r.Redriven > 0, err
}
