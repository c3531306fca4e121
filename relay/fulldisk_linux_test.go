package relay

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// inProcess runs the rest of a test in a process of its own, whose limits it may change. It reports whether this is that process.
func inProcess(t *testing.T) bool {
	t.Helper()
	const env = "RELAY_TEST_IN_PROCESS"
	if os.Getenv(env) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this test itself
	cmd.Env = append(os.Environ(), env+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v: %s", err, out)
	}
	return false
}

// fileLimit sets how large a file may grow. The kernel fails a write over this limit as it does on a full disk.
func fileLimit(t *testing.T, bytes uint64) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: syscall.RLIM_INFINITY & (1<<63 - 1)}); err != nil {
		t.Fatal(err)
	}
}

// A task whose artifacts find no room runs again once there is some. That its claim could not be given back then, either,
// counts as no crash, however often it happens.
func TestR29FullDiskIsNoCrashOfATask(t *testing.T) {
	if !inProcess(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, answering(200, 0))
		runs := 0
		r.run(func(context.Context, jobs.Job, func(jobs.Progress)) (map[string]string, error) {
			if runs++; runs <= 2*maxCrashes {
				fileLimit(t, 0)
			}
			return map[string]string{"out": "made"}, nil
		})
		id := r.queued("")
		for range 2 * maxCrashes {
			synctest.Wait()
			if task := r.task(id); task.State != Running || !strings.Contains(r.log.String(), "file too large") {
				t.Fatalf("with a full disk the task is %s:\n%s", task.State, r.log)
			}
			fileLimit(t, 1<<30)
			time.Sleep(2 * time.Minute) // longer than a worker waits that has handed a task back
		}
		synctest.Wait()
		if task := r.onDisk(id); task.State != Succeeded || task.Crashes != 0 || runs != 2*maxCrashes+1 {
			t.Errorf("after %d runs the task is %s, with %d crashes: %+v\n%s", runs, task.State, task.Crashes, task.Error, r.log)
		}
		r.stop()
	})
}
