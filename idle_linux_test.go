package batchfleet

import (
	"context"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// maxIdle is how much memory a worker may hold that has nothing to do, in KiB: a machine
// runs many of them.
const maxIdle = 30 << 10

// TestIdleWorkerIsSmall measures the program as it is released.
func TestIdleWorkerIsSmall(t *testing.T) {
	binary, dir := filepath.Join(t.TempDir(), "batchfleet"), t.TempDir()
	build := exec.CommandContext(t.Context(), "make", "build", "VERSION=test", "BATCHFLEET="+binary)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	redis := redistest.New(t)
	pubsub := listen(t)
	server := emulator.New(emulator.Config{Log: slog.New(slog.DiscardHandler)})
	if err := server.EnsureSubscription("projects/idle/subscriptions/jobs-sub", "projects/idle/topics/jobs", 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = server.Serve(ctx, pubsub) })

	// What a start costs depends on when the collector runs, so the smallest of a few counts.
	least := math.MaxInt
	for range 4 {
		if least = min(least, idle(t, server, exec.CommandContext(ctx, binary, "worker"), []string{
			"GCP_PROJECT_ID=idle", "PUBSUB_SUBSCRIPTION=jobs-sub", "PUBSUB_EMULATOR_HOST=" + pubsub.Addr().String(),
			"REDIS_HOST=" + redis.Host, "REDIS_PORT=" + strconv.Itoa(redis.Port), "STORAGE_TYPE=LOCAL", "LOCAL_STORAGE_PATH=" + dir,
		})); least <= maxIdle {
			return
		}
	}
	t.Errorf("an idle worker holds %d KiB, at most %d are allowed", least, maxIdle)
}

// idle runs a worker until it waits for jobs, and returns what it holds then, in KiB.
func idle(t *testing.T, server *emulator.Server, worker *exec.Cmd, env []string) int {
	t.Helper()
	var log strings.Builder
	worker.Env, worker.Dir, worker.Stderr = env, t.TempDir(), &log
	worker.Cancel = func() error { return worker.Process.Signal(syscall.SIGTERM) }
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = worker.Process.Signal(syscall.SIGTERM)
		_ = worker.Wait()
	}
	defer end()
	if !eventually(func() bool { return server.Stats()[0].WaitingPulls > 0 }) {
		end()
		t.Fatalf("the worker does not wait for jobs\n%s", log.String())
	}
	kib := resident(t, worker.Process.Pid)
	t.Logf("an idle worker holds %d KiB", kib)
	end()
	if !eventually(func() bool { return server.Stats()[0].WaitingPulls == 0 }) {
		t.Fatal("its pull waits still")
	}
	return kib
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
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

// resident returns the resident memory of a process in KiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatalf("no VmRSS in %s", text)
	return 0
}
