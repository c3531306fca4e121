package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// stopping is a control plane without jobs; who asks for one is stopped.
type stopping struct {
	gateway.ControlPlane
	stop context.CancelFunc
}

func (s stopping) Lease(ctx context.Context, _ wire.LeaseRequest) (*wire.LeaseResponse, error) {
	s.stop()
	return nil, context.Cause(ctx)
}

// What an agent that was killed has left where pw.x runs goes when the next one
// starts, and not when one cannot start because the directory is in use.
func TestWorkOfKilledAgentIsSwept(t *testing.T) {
	t.Setenv("PROCESSOR", "mock") // pw.x need not be here
	t.Setenv("SOURCE", "https://g.example")
	t.Setenv("AGENT_DIR", t.TempDir())
	var e Env
	if err := settings.Read(&e); err != nil {
		t.Fatal(err)
	}
	run := func() error {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		return e.Run(ctx, "test", func(context.Context, *Env) (gateway.ControlPlane, func(), error) {
			return stopping{stop: stop}, func() {}, nil
		})
	}
	left := filepath.Join(e.Dir, "work", "job-1", "run-2", "out")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	other := &gateway.Agent{Dir: filepath.Join(e.Dir, "leases"), Log: slog.New(slog.DiscardHandler)}
	if err := other.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "another worker of this machine uses it") {
		t.Errorf("a second agent ended with %v", err)
	}
	if _, err := os.Stat(left); err != nil {
		t.Errorf("a second agent has deleted the work of the first: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(e.Dir, "work", "job-1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the work of a killed agent is still there: %v", err)
	}
}

// A directory that others may write to, and a link in it, are refused before
// anything is made, changed or deleted where they lead.
func TestAgentDirThatOthersCouldHavePreparedIsRefused(t *testing.T) {
	dir := t.TempDir()
	e := Env{Dir: filepath.Join(dir, "agent")}
	if err := e.MakeDirs(); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		e.Kind, e.Slots = "mock", 1
		err := e.Run(t.Context(), "test", func(context.Context, *Env) (gateway.ControlPlane, func(), error) { return nil, func() {}, nil })
		if err == nil || !strings.Contains(err.Error(), "AGENT_DIR") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, sub := range []string{"", "leases", "store", "work"} {
		path := filepath.Join(e.Dir, sub)
		if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // that is what is refused
			t.Fatal(err)
		}
		refused("chmod 700 " + path)
		if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a directory needs the x
			t.Fatal(err)
		}
	}
	kept := filepath.Join(dir, "precious", "file")
	if err := errors.Join(os.Mkdir(filepath.Dir(kept), 0o700), os.WriteFile(kept, nil, 0o600), os.RemoveAll(e.workDir()), os.Symlink(filepath.Dir(kept), e.workDir())); err != nil {
		t.Fatal(err)
	}
	refused("a symbolic link")
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("where a link led: %v", err)
	}
	// The whole directory may lie elsewhere.
	if err := errors.Join(os.Remove(e.workDir()), os.Rename(e.Dir, filepath.Join(dir, "elsewhere")), os.Symlink("elsewhere", e.Dir), e.MakeDirs()); err != nil {
		t.Error(err)
	}
}
