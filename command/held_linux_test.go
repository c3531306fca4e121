package command_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfleet/batchfleet/command"
)

func TestK12ProcessesThatAProgramStartsAtOnceHaveItsLimits(t *testing.T) {
	if !command.CanHold(t) {
		t.Skip("the kernel lets this process trace none")
	}
	for _, cgroups := range []bool{true, false} {
		if !cgroups {
			defer command.WithoutCgroups()()
		}
		for range 50 {
			var out strings.Builder
			c := &command.Command{
				Path: "/bin/sh", Args: []string{"-c", "(cat /proc/self/limits); :"}, Env: []string{"PATH=" + os.Getenv("PATH")},
				Limits: command.Limits{OpenFiles: 77, FileBytes: 987654},
				Output: func(_ command.Stream, line []byte, _ bool) error { out.Write(line); out.WriteByte('\n'); return nil },
			}
			if _, err := c.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), " 77 ") || !strings.Contains(out.String(), " 987654 ") {
				t.Fatalf("the limits of a child are\n%s", out.String())
			}
		}
	}
}

func TestK12ProgramThatCannotBeHeldIsRunAllTheSame(t *testing.T) {
	dir := t.TempDir()
	setuid := filepath.Join(dir, "setuid.sh")
	if err := errors.Join(os.WriteFile(setuid, []byte("#!/bin/sh\necho ran\n"), 0o700), os.Chmod(setuid, 0o700|os.ModeSetuid)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	var out strings.Builder
	c := &command.Command{Path: setuid, Output: func(_ command.Stream, line []byte, _ bool) error { out.Write(line); return nil }}
	if _, err := c.Run(t.Context()); err != nil || out.String() != "ran" {
		t.Errorf("it has said %q, %v", out.String(), err)
	}
	c.Path = filepath.Join(dir, "missing")
	if _, err := c.Run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is missing: %v", err)
	}
	c.Path = "/bin/sh"
	c.Args = []string{"-c", "kill -TRAP $$"}
	exit := wantExit(t, func() error { _, err := c.Run(t.Context()); return err }(), command.Signaled)
	if exit.Signal != syscall.SIGTRAP {
		t.Errorf("a program that ends by the signal that holds it: %v", exit)
	}
}
