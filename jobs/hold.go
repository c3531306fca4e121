package jobs

import "context"

type holdKey struct{}

// WithHold returns a context under which [Held] asks check. It is inherited, also by
// contexts that ctx does not end.
func WithHold(ctx context.Context, check func(context.Context) error) context.Context {
	return context.WithValue(ctx, holdKey{}, check)
}

// Held returns nil if the attempt that runs under ctx may still make what it has
// written visible. It is asked at the last moment before a rename or an upload: a
// process that was stopped and goes on does not know yet that its job is someone
// else's, and ctx has not ended yet. An error wraps [ErrLeaseLost] when the job is
// lost, and [ErrUnavailable] when that cannot be known now. Outside an attempt all
// is held.
func Held(ctx context.Context) error {
	if check, ok := ctx.Value(holdKey{}).(func(context.Context) error); ok {
		return check(ctx)
	}
	return nil
}
