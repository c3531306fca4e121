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

// HandBack hands back all that reader holds, also when ctx has ended. If that fails,
// the dead letters return to the subscription within a minute.
func HandBack(ctx context.Context, reader *pubsub.DeadLetterReader) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return reader.HandBackAll(last)
}
