package command_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStdinThatFailsStopsTheProcess(t *testing.T) {
	broken := errors.New("broken")
	c := self("sleep")
	c.Stdin = io.MultiReader(strings.NewReader("half a requ"), iotest.ErrReader(broken))
	if _, err := run(t, c); !errors.Is(err, broken) {
		t.Errorf("Run = %v, want the reader's error", err)
	}
}

func TestStdinNobodyReadsIsNoError(t *testing.T) {
	c := self("nothing")
	c.Stdin = io.LimitReader(endless("x"), 10<<20)
	if _, err := run(t, c); err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestStdinThatHangsDoesNotHoldUpRun(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	c := self("nothing")
	c.Stdin = r
	if _, err := run(t, c); err != nil {
		t.Errorf("Run = %v", err)
	}
}
