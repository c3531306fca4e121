package dlq

import (
	"context"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/worker"
)

// Keeping calls do, and keeps what box holds until it returns.
func Keeping(ctx context.Context, box *worker.LetterBox, do func() error) error {
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { box.Keep(keeping) })
	defer keeper.Wait()
	defer stop()
	return do()
}

// HandBack hands back all that box holds, also when ctx has ended. What it could
// not hand back comes back by itself within a minute.
func HandBack(ctx context.Context, box *worker.LetterBox) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return box.HandBackAll(last)
}
