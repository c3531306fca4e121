package cli

import (
	"context"
	"sync"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
)

// latePublisher is a publisher that is opened when it is first needed: most workers never publish, and its client takes
// memory. Its methods may be called concurrently.
type latePublisher struct {
	open func() (*pubsub.Publisher, error)

	mu     sync.Mutex
	opened *pubsub.Publisher
}

// Publish is [pubsub.Publisher.Publish].
func (l *latePublisher) Publish(ctx context.Context, job jobs.Job) (string, error) {
	p, err := l.get()
	if err != nil {
		return "", err
	}
	return p.Publish(ctx, job)
}

func (l *latePublisher) get() (p *pubsub.Publisher, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		l.opened, err = l.open()
	}
	return l.opened, err
}

// Close closes the publisher if it was opened.
func (l *latePublisher) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		return nil
	}
	return l.opened.Close()
}
