package exec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestG66ProgramIsKilledAfterGrace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, script string }{
		{"ignores SIGTERM", `trap '' TERM; echo begun; while :; do sleep 1; done`},
		{"stops itself", `echo begun; kill -STOP $$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.script, Limits{Grace: 100 * time.Millisecond})
			q := request()
			q.TimeoutMs = 2000
			if got := r.fails(q, wire.ReasonTimeout, "did not end within 2s"); got.Stdout != "begun\n" {
				t.Errorf("stdout %q, want what was written before", got.Stdout)
			}
		})
	}
}

func TestG66ProgramMayExitAtSIGTERM(t *testing.T) {
	t.Parallel()
	r := newRig(t, `trap 'echo saved > state; exit 0' TERM; while :; do sleep 0.1; done`, Limits{Grace: time.Minute})
	q := request()
	q.TimeoutMs = 1000
	got := r.fails(q, wire.ReasonTimeout, "did not end")
	wantFiles(t, got.OutputArchive, map[string]string{"state": "saved\n"})
}

func TestG66ProcessesLeftBehindAreKilled(t *testing.T) {
	t.Parallel()
	// It holds stdout, so to wait for the end of stdout would be to wait for it.
	r := newRig(t, `setsid sh -c 'echo $$ > pid; exec sleep 1000' & while ! test -s pid; do sleep 0.01; done`, Limits{})
	got := r.ok(request())
	pid, err := strconv.Atoi(strings.TrimSpace(unzip(t, got.OutputArchive)["pid"]))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil && strings.HasPrefix(string(text), "sleep\x00") {
		t.Errorf("process %d runs: %q", pid, text)
	}
}

func TestG66StoppedAttemptsHaveNoResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cause error
		kept  bool // the checkpoint
	}{{jobs.ErrCanceled, false}, {jobs.ErrLeaseLost, true}, {jobs.ErrDrained, true}} {
		t.Run(tt.cause.Error(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, `echo half > "$GRID_CHECKPOINT_DIR/state"; touch "$1"; exec sleep 1000`, Limits{})
			begun := filepath.Join(t.TempDir(), "begun")
			ctx, stop := context.WithCancelCause(t.Context())
			var waiting sync.WaitGroup
			waiting.Go(func() {
				for t.Context().Err() == nil {
					if _, err := os.Stat(begun); err == nil {
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
				stop(tt.cause)
			})
			q := request(begun)
			_, err := r.Run(ctx, Attempt{Request: q, Number: 1})
			waiting.Wait()
			if !errors.Is(err, tt.cause) {
				t.Errorf("Run = %v, want %v", err, tt.cause)
			}
			r.clean()
			r.program(`cat "$GRID_CHECKPOINT_DIR/state"; true`)
			if got := r.ok(q); (got.Stdout == "half\n") != tt.kept {
				t.Errorf("the next attempt read %q, want the checkpoint: %v", got.Stdout, tt.kept)
			}
		})
	}
}

func TestG66WorkerTimeLimitFailsJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, `exec sleep 1000`, Limits{})
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, jobs.ErrTimeout)
	defer cancel()
	got, err := r.Run(ctx, Attempt{Request: request(), Number: 1})
	if err != nil || got.Reason != wire.ReasonTimeout {
		t.Errorf("it ended with %s, %v; want timeout", got.Reason, err)
	}
}

func TestG77CheckpointsLiveUntilTheJobEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, `cat "$GRID_CHECKPOINT_DIR/n"; echo "$GRID_ATTEMPT" >> "$GRID_CHECKPOINT_DIR/n"; exit "$1"`, Limits{})
	q := request("3")
	q.RetryOn = []string{"exit"}
	if got := r.fails(q, wire.ReasonExit, "exit status 3"); got.Stdout != "" {
		t.Errorf("the first attempt read %q", got.Stdout)
	}
	got, err := r.Run(t.Context(), Attempt{Request: q, Number: 2})
	if err != nil || got.Stdout != "1\n" || got.Attempt != 2 {
		t.Errorf("attempt %d read %q, %v; want what the first one wrote", got.Attempt, got.Stdout, err)
	}
	q.Args[0] = "0"
	if got := r.ok(q); got.Stdout != "1\n2\n" {
		t.Errorf("the last attempt read %q", got.Stdout)
	}
	if got := r.ok(q); got.Stdout != "" {
		t.Errorf("after the end of the job an attempt read %q", got.Stdout)
	}
}

func TestG22FullDiskIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("no file system can be mounted here:", err)
	}
	r := newRig(t, `head -c 10000000 /dev/zero > big`, Limits{})
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	small := &Runner{ExeDir: r.ExeDir, JobsDir: filepath.Join(dir, "jobs"), CacheDir: r.CacheDir, Path: r.Path}
	if err := small.Open(); err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	if err := small.Ready(t.Context()); err != nil {
		t.Errorf("Ready = %v, with an empty disk", err)
	}
	write(t, filepath.Join(dir, "fill"), strings.Repeat("x", 19<<20/10), 0o600)
	if err := small.Ready(t.Context()); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Ready = %v, with a disk that is nearly full", err)
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string][]wire.InputFile{"the program": nil, "the runner": {file("in", strings.Repeat("x", 3<<20))}} {
		q := request()
		q.Files = files
		got, err := small.Run(t.Context(), Attempt{Request: q, Number: 1})
		if err != nil || got.Reason != wire.ReasonNoSpace || !strings.Contains(got.Message, "the disk of the worker is full") {
			t.Errorf("%s: %s %q, %v; want no_space", name, got.Reason, got.Message, err)
		}
	}
}

func TestG66ShorterGraceForSomeStops(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cause error
		most  time.Duration
	}{{jobs.ErrTimeout, time.Minute}, {jobs.ErrCanceled, time.Minute}, {jobs.ErrDrained, 300 * time.Millisecond}, {&outputLimitError{1}, 0}} {
		a := attempt{Limits: Limits{Grace: time.Minute}}
		if got := a.grace(tt.cause); got != tt.most {
			t.Errorf("grace(%v) = %v, want %v", tt.cause, got, tt.most)
		}
	}
}
