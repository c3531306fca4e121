package command_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/command"
)

func TestGraceDependsOnTheCause(t *testing.T) {
	deaf := command.Command{
		Path: "/bin/sh", Args: []string{"-c", `trap "" TERM; echo up; while :; do sleep 0.1; done`}, Env: []string{"PATH=/usr/bin:/bin"},
		Grace: time.Hour,
	}
	out := errors.New("out of time")
	var asked error
	deaf.GraceOf = func(cause error) time.Duration {
		asked = cause
		return time.Millisecond
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	deaf.Line = func([]byte) error { cancel(out); return nil }
	if _, err := deaf.Run(ctx); !errors.Is(err, out) || !errors.Is(asked, out) {
		t.Errorf("run: %v, asked for %v", err, asked)
	}
}
