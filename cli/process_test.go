package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// kills is why tests of what becomes of a job when a process or a disk fails are run
// once: it is told by records and exit codes. That the processes have no races shows
// where they run undisturbed, and in TestPromiseWorkersKilledAtRandom and TestZ41LedgerHoldsUnderFire.
const kills = "records and exit codes tell it, and other tests look for races in these processes"

// asBatchfleet is the environment variable that makes a process of the test
// binary run as batchfleet.
const asBatchfleet = "BATCHFLEET_TEST_MAIN"

// raceOptions are for commands with the race detector: without them it would have each wait a second before it
// ends, for races of goroutines that nothing waits for.
const raceOptions = "halt_on_error=1 atexit_sleep_ms=0"

// batchfleet returns a process of batchfleet, not yet started, with that
// environment alone and in a directory of its own. It is killed when the test
// ends.
func batchfleet(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env, cmd.Dir = append([]string{asBatchfleet + "=1", "GORACE=" + raceOptions}, env...), t.TempDir()
	return cmd
}

// output runs a process to its end.
func output(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// process is one that runs.
type process struct {
	*exec.Cmd
	t     *testing.T
	log   *testlog.Buffer // all it says
	ended chan struct{}
}

// launch starts a process, which is killed when the test ends.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	testrun.Long(t, "it starts processes")
	p := &process{Cmd: cmd, t: t, log: &testlog.Buffer{}, ended: make(chan struct{})}
	p.Stdout, p.Stderr = p.log, p.log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // the exit code is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if log := p.log.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") || t.Failed() && testing.Verbose() {
			t.Errorf("log of %v, process %d:\n%s", p.Args[1:], p.Process.Pid, log)
		}
	})
	return p
}

// kill ends the process as the kernel would when memory is short.
func (p *process) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

// terminate sends SIGTERM and returns the exit code and how long it took.
func (p *process) terminate() (code int, took time.Duration) {
	p.t.Helper()
	began := time.Now()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	return p.exitCode(30 * time.Second), time.Since(began)
}

// exitCode waits until the process has ended.
func (p *process) exitCode(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.t.Fatalf("%v does not end:\n%s", p.Args[1:], p.log)
	}
	return p.ProcessState.ExitCode()
}

// untilLogged waits for the process to say text.
func (p *process) untilLogged(text string) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(p.log.String(), text); {
		if time.Now().After(deadline) {
			p.t.Fatalf("%v does not say %q:\n%s", p.Args[1:], text, p.log)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// until waits for something that other processes bring about.
func until(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
