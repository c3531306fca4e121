package cli

import (
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// NewLog returns a logger to w: for people on a terminal, JSON otherwise.
// LOG_LEVEL overrides the level.
func NewLog(w *os.File, level slog.Level) *slog.Logger {
	if text := os.Getenv("LOG_LEVEL"); text != "" {
		_ = level.UnmarshalText([]byte(text)) // an unknown level leaves the default
	}
	if term.IsTerminal(int(w.Fd())) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
}

// readable writes durations as people do, 1.5s, rather than in nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}
