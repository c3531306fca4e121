package trace

import (
	"context"
	"log/slog"
)

// LogKey is the key of the trace id in a line of the log.
const LogKey = "trace_id"

// Handler returns a handler that passes on to h what is logged, with the trace id of the context it is
// logged under, if that has one.
func Handler(h slog.Handler) slog.Handler { return handler{h} }

type handler struct{ slog.Handler }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if at := placeOf(ctx).at; at.Valid() {
		r = r.Clone()
		r.AddAttrs(slog.String(LogKey, at.Trace.String()))
	}
	return h.Handler.Handle(ctx, r) //nolint:wrapcheck // it is passed on
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
