package jobs

import (
	"context"
	"errors"
	"time"
)

type holdKey struct{}

// WithHold returns a context under which [Held] calls check. Derived contexts inherit
// it, also those of [context.WithoutCancel].
func WithHold(ctx context.Context, check func(context.Context) error) context.Context {
	return context.WithValue(ctx, holdKey{}, check)
}

// Held returns nil if the attempt that runs under ctx may still make what it has
// written visible. It is called right before a rename or an upload: after a stop, a
// process may not know yet that it has lost its job. An error wraps [ErrLeaseLost]
// when the job is lost, and [ErrUnavailable] when that cannot be known now. Outside
// an attempt it returns nil.
func Held(ctx context.Context) error {
	if check, ok := ctx.Value(holdKey{}).(func(context.Context) error); ok {
		return check(ctx)
	}
	return nil
}

// AwaitHeld waits until [Held] knows whether this attempt still has its job, as long as
// ctx lasts, and returns its error. It is for the last write of an attempt, whose work would
// otherwise be lost because Redis was away for a moment.
func AwaitHeld(ctx context.Context) error {
	for {
		err := Held(ctx)
		if !errors.Is(err, ErrUnavailable) {
			return err
		}
		if err := Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}
