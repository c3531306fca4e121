package program

import (
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/trace"
)

// NewLog returns a logger to w: for people on a terminal, JSON otherwise. It logs no
// secrets that [redact] knows, and the id of the trace that a line belongs to. LOG_LEVEL overrides the level.
func NewLog(w *os.File, level slog.Level) *slog.Logger {
	if text := os.Getenv("LOG_LEVEL"); text != "" {
		_ = level.UnmarshalText([]byte(text)) // an unknown level leaves the default
	}
	if term.IsTerminal(int(w.Fd())) {
		return slog.New(redact.Handler(trace.Handler(tint.NewTextHandler(w, &tint.Options{Level: level, ReplaceAttr: withoutNil}))))
	}
	return slog.New(redact.Handler(trace.Handler(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))))
}

// withoutNil drops an error that is none.
func withoutNil(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "err" && a.Value.Kind() == slog.KindAny && a.Value.Any() == nil {
		return slog.Attr{}
	}
	return a
}

// readable also writes durations as people do, 1.5s, rather than in nanoseconds.
func readable(groups []string, a slog.Attr) slog.Attr {
	a = withoutNil(groups, a)
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}
