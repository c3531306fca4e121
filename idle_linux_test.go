package batchfleet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// maxIdle is how much memory each of two workers may hold that have nothing to do, in KiB,
// with the pages that both use, most of them of the program's file, counted by halves. How
// many of these the kernel maps beside those that were asked for is its own affair, and
// differs by 1.5 MiB from run to run: one worker alone shows 29 to 31 MiB in ps.
const maxIdle = 20 << 10

// TestIdleWorkerIsSmall measures the program as it is released.
func TestIdleWorkerIsSmall(t *testing.T) {
	testrun.Long(t, "it starts processes")
	testrun.Once(t, "the program is built as it is released")
	binary, dir := filepath.Join(t.TempDir(), "batchfleet"), t.TempDir()
	build := exec.CommandContext(t.Context(), "make", "build", "VERSION=test", "BATCHFLEET="+binary)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	redis := redistest.New(t)
	server := emulator.New(emulator.Config{Log: slog.New(slog.DiscardHandler)})
	if err := server.EnsureSubscription("projects/idle/subscriptions/jobs-sub", "projects/idle/topics/jobs", 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	addr, _ := testnet.Serve(t, testnet.AnyPort, server.Serve)
	env := []string{
		"GCP_PROJECT_ID=idle", "PUBSUB_SUBSCRIPTION=jobs-sub", "PUBSUB_EMULATOR_HOST=" + addr,
		"REDIS_HOST=" + redis.Host, "REDIS_PORT=" + strconv.Itoa(redis.Port), "STORAGE_TYPE=LOCAL", "LOCAL_STORAGE_PATH=" + dir,
		"GOMAXPROCS=2", // each processor takes 150 KiB
	}
	first, second := start(t, binary, env), start(t, binary, env)
	if !eventually(func() bool { return server.Stats()[0].WaitingPulls == 2 }) {
		t.Fatal("the workers do not wait for jobs")
	}
	for _, worker := range []*exec.Cmd{first, second} {
		if kib := share(t, worker.Process.Pid); kib > maxIdle {
			t.Errorf("an idle worker holds %d KiB, at most %d are allowed", kib, maxIdle)
		}
	}
}

// start starts a worker, which is stopped when the test ends.
func start(t *testing.T, binary string, env []string) *exec.Cmd {
	t.Helper()
	worker := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "worker")
	var log strings.Builder
	worker.Env, worker.Dir, worker.Stderr = env, t.TempDir(), &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = worker.Process.Signal(syscall.SIGTERM)
		if err := worker.Wait(); err != nil || t.Failed() {
			t.Errorf("the worker: %v\n%s", err, log.String())
		}
	})
	return worker
}

// eventually waits a minute until is returns true.
func eventually(is func() bool) bool {
	for range 600 {
		if is() {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// share returns the memory of a process in KiB; a page of n processes counts an nth.
func share(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nPss:")
	var kib int
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		t.Fatalf("no Pss in %s", text)
	}
	t.Logf("an idle worker holds %d KiB", kib)
	return kib
}
