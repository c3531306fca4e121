package queue

import (
	"context"
	"time"
)

// callTimeout bounds a call whose context has no deadline of its own.
const callTimeout = 5 * time.Second

// bounded returns ctx with a deadline.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}
