package deadletter

import (
	"context"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/pubsub"
)

// Keeping calls do, and extends the leases of what reader holds until it returns.
func Keeping(ctx context.Context, reader *pubsub.DeadLetterReader, do func() error) error {
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { reader.Keep(keeping) })
	defer keeper.Wait()
	defer stop()
	return do()
}

// Collect takes dead letters until none has come for patience, and returns them newest
// first. warn is told that there may be more.
func Collect(ctx context.Context, reader *pubsub.DeadLetterReader, patience time.Duration, warn func(format string, args ...any)) ([]Item, error) {
	messages, full, err := reader.Collect(ctx, patience)
	if err != nil {
		return nil, err
	}
	if full {
		warn("there may be more: only %d letters are looked at at once", len(messages))
	}
	return group(messages), nil
}

// HandBack hands back all that reader holds, also when ctx has ended. If that fails,
// the dead letters return to the subscription within a minute, and warn is told.
func HandBack(ctx context.Context, reader *pubsub.DeadLetterReader, warn func(format string, args ...any)) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := reader.HandBackAll(last); err != nil {
		warn("the dead letters could not be handed back, and can be read again within a minute: %v", err)
	}
}
