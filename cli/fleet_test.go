package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// testFleet is a queue and a real Redis, to which worker processes are added.
type testFleet struct {
	t        *testing.T
	redis    *redistest.Server
	rdb      *redis.Client
	status   *status.Store
	emulator *emulator.Server
	addr     string // of the emulator
	dir      string // of the storage
	publish  *pubsub.Publisher
}

const (
	testTopic        = "projects/local-dev/topics/pdf-processing-topic"
	testSubscription = "projects/local-dev/subscriptions/pdf-processing-subscription"
	testLease        = 10 * time.Second // the shortest that Pub/Sub gives
)

func newTestFleet(t *testing.T) *testFleet {
	t.Helper()
	return newTestFleetOn(t, redistest.New(t))
}

func newTestFleetOn(t *testing.T, server *redistest.Server) *testFleet {
	t.Helper()
	f := &testFleet{t: t, redis: server, dir: t.TempDir()}
	f.rdb = f.redis.Client()
	f.status = status.New(f.rdb)
	f.emulator = emulator.New(emulator.Config{Log: slog.New(slog.DiscardHandler)})
	if err := errors.Join(f.emulator.EnsureTopic(testTopic), f.emulator.EnsureSubscription(testSubscription, testTopic, testLease)); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := f.emulator.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); serving.Wait() })
	opts, err := pubsub.Options(f.addr)
	if err != nil {
		t.Fatal(err)
	}
	f.publish, err = pubsub.OpenPublisher(t.Context(), testTopic, pubsub.Rules{}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.publish.Close() })
	return f
}

// process is one worker process.
type process struct {
	*exec.Cmd
	t     *testing.T
	log   *testlog.Buffer
	ended chan struct{}
}

// environment of the fleet's processes; later entries win.
func (f *testFleet) environment(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + f.t.TempDir(), "TMPDIR=" + f.t.TempDir(),
		"GORACE=halt_on_error=1",
		"PUBSUB_EMULATOR_HOST=" + f.addr, "GCP_PROJECT_ID=local-dev",
		"REDIS_HOST=" + f.redis.Host, fmt.Sprintf("REDIS_PORT=%d", f.redis.Port),
		"LOCAL_STORAGE_PATH=" + f.dir, "PROCESSOR=mock", "LEASE_TTL=10s", "LEASE_EXTEND_EVERY=1s",
		"MOCK_PAGES=3-6", "MOCK_PAGE_SECONDS=0.05-0.1",
	}, extra...)
}

// start starts a worker process, which is killed at the end of the test.
func (f *testFleet) start(extra ...string) *process {
	f.t.Helper()
	p := &process{Cmd: batchfleet(f.t, f.environment(extra...), "worker"), t: f.t, log: &testlog.Buffer{}, ended: make(chan struct{})}
	p.Stdout, p.Stderr = p.log, p.log
	if err := p.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // the exit code is in ProcessState
		close(p.ended)
	}()
	f.t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.log.String(), "DATA RACE") || f.t.Failed() && testing.Verbose() {
			f.t.Errorf("log of worker %d:\n%s", p.Process.Pid, p.log)
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
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("worker does not end:\n%s", p.log)
	}
	return p.ProcessState.ExitCode(), time.Since(began)
}

// submit records and queues a mock job as batchfleet submit does.
func (f *testFleet) submit(id jobs.ID, pages int) {
	f.t.Helper()
	job := jobs.Job{ID: id, Kind: "mock", Pages: pages, Submitted: time.Now()}
	if _, err := f.status.Submit(f.t.Context(), job); err != nil {
		f.t.Fatal(err)
	}
	f.send(job)
}

func (f *testFleet) send(job jobs.Job) {
	f.t.Helper()
	if _, err := f.publish.Publish(f.t.Context(), job); err != nil {
		f.t.Fatal(err)
	}
}

// status returns the status word of a job, or "" while it cannot be read.
func (f *testFleet) state(id jobs.ID) string {
	e, err := f.status.Get(f.t.Context(), id)
	if err != nil {
		return ""
	}
	return e.Status
}

// until waits for something that other processes bring about.
func (f *testFleet) until(limit time.Duration, what string, cond func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(limit); !cond(); {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within %s: %s", limit, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (f *testFleet) untilState(limit time.Duration, id jobs.ID, want string) {
	f.t.Helper()
	f.until(limit, fmt.Sprintf("job %s %s", id, want), func() bool { return f.state(id) == want })
}

// untilEnded waits until all of the jobs have ended, one way or another.
func (f *testFleet) untilEnded(limit time.Duration, ids []jobs.ID) {
	f.t.Helper()
	f.until(limit, "all jobs have ended", func() bool {
		entries, err := f.status.Entries(f.t.Context(), ids)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, e := range entries {
			if !e.State().Terminal() {
				return false
			}
		}
		return true
	})
}

// account checks the ledger: every job has ended as want, once, its result is
// whole, and the queue holds nothing.
func (f *testFleet) account(want string, ids ...jobs.ID) {
	f.t.Helper()
	for _, id := range ids {
		e, err := f.status.Get(f.t.Context(), id)
		if err != nil {
			f.t.Errorf("job %s is lost: %v", id, err)
			continue
		}
		if e.Status != want {
			f.t.Errorf("job %s is %s (%s %s), want %s", id, e.Status, e.Message, e.ErrorMsg, want)
		}
		if n := f.rdb.HGet(f.t.Context(), "{job:"+string(id)+"}:detail", "outcomes").Val(); n != "1" {
			f.t.Errorf("job %s has %q outcomes on record, want 1", id, n)
		}
		f.checkResult(id, want == "completed")
	}
	f.until(time.Minute, "the queue is empty: "+f.queue(), func() bool {
		s := f.emulator.Stats()[0]
		return s.Undelivered == 0 && s.Leased == 0
	})
}

func (f *testFleet) queue() string { return fmt.Sprintf("%+v", f.emulator.Stats()[0]) }

func (f *testFleet) checkResult(id jobs.ID, want bool) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "results", string(id), "result.json"))
	if errors.Is(err, fs.ErrNotExist) && !want {
		return
	}
	var result struct {
		JobID string `json:"job_id"`
		Pages int    `json:"pages"`
	}
	if err != nil || json.Unmarshal(text, &result) != nil || result.JobID != string(id) {
		f.t.Errorf("result of job %s: %v %s", id, err, text)
		return
	}
	pages, err := os.ReadFile(filepath.Join(f.dir, "results", string(id), "pages.jsonl"))
	if n := bytes.Count(pages, []byte("\n")); err != nil || n != result.Pages {
		f.t.Errorf("job %s has %d lines of pages, want %d: %v", id, n, result.Pages, err)
	}
	// The unfinished file of a worker killed in mid-write is the sweep's to remove.
	parts, err := filepath.Glob(filepath.Join(f.dir, "results", string(id), "parts", "*.jsonl"))
	if err != nil || len(parts) > 0 {
		f.t.Errorf("job %s has left checkpoints behind: %v %v", id, parts, err)
	}
}
