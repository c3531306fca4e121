package relay

import (
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The kernel fails a write over this limit as it does on a full disk.
func TestR05AFullDiskAcceptsNoTask(t *testing.T) {
	const env = "RELAY_TEST_FULL_DISK"
	if os.Getenv(env) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this test itself
		cmd.Env = append(os.Environ(), env+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	r := newRig(t)
	earlier := r.create("")
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: syscall.RLIM_INFINITY & (1<<63 - 1)}); err != nil {
		t.Fatal(err)
	}
	resp := r.call(http.MethodPost, "/v1/tasks", `{"job_id":"job_123","kind":"music"}`)
	if resp.Status != http.StatusServiceUnavailable || resp.code() != "UNAVAILABLE" {
		t.Errorf("create: %d %s", resp.Status, resp.Body)
	}
	resp = r.call(http.MethodPost, "/v1/tasks/"+string(earlier)+"/cancel", "")
	if resp.Status != http.StatusServiceUnavailable || r.task(earlier).State != Queued {
		t.Errorf("cancel: %d %s, and the task is %s", resp.Status, resp.Body, r.task(earlier).State)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 30, Max: syscall.RLIM_INFINITY & (1<<63 - 1)}); err != nil {
		t.Fatal(err)
	}
	if r.onDisk(earlier).State != Queued || r.tasks.count(Queued) != 1 {
		t.Error("what was refused is on disk")
	}
	for _, dir := range []string{tmpDir, tasksDir} {
		entries, err := os.ReadDir(filepath.Join(r.Dir, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != quarantineDir && e.Name() != string(earlier) {
				t.Errorf("%s/ has %s", dir, e.Name())
			}
		}
	}
	r.create("")
}
