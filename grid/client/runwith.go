package client

import (
	"context"
	"sync"
)

// RunWith is [Multi.Run] until f returns. The context of f ends when ctx does, or when all leaders refuse this client. The error is that of Run, or else
// that of f. It is called once.
func (m *Multi) RunWith(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	var refused error
	running.Go(func() {
		refused = m.Run(ctx)
		stop()
	})
	err := f(ctx)
	stop()
	running.Wait()
	if refused != nil {
		return refused
	}
	return err
}
