package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/emulator"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/internal/testrun"
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
	testrun.Long(t, "it starts processes")
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
	f.addr, _ = testnet.Serve(t, testnet.AnyPort, f.emulator.Serve)
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

// environment of the fleet's processes; later entries win.
func (f *testFleet) environment(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + f.t.TempDir(), "TMPDIR=" + f.t.TempDir(),
		"PUBSUB_EMULATOR_HOST=" + f.addr, "GCP_PROJECT_ID=local-dev",
		"REDIS_HOST=" + f.redis.Host, fmt.Sprintf("REDIS_PORT=%d", f.redis.Port),
		"LOCAL_STORAGE_PATH=" + f.dir, "PROCESSOR=mock", "LEASE_TTL=10s", "LEASE_EXTEND_EVERY=1s",
		"MOCK_PAGES=3-6", "MOCK_PAGE_SECONDS=0.05-0.1",
	}, extra...)
}

// start starts a worker process, which is killed at the end of the test.
func (f *testFleet) start(extra ...string) *process {
	f.t.Helper()
	return launch(f.t, batchfleet(f.t, f.environment(extra...), "worker"))
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

// succeed records a job that has succeeded, with a result, and that no worker has run.
func (f *testFleet) succeed(id jobs.ID) {
	f.t.Helper()
	job := jobs.Job{ID: id, Kind: "mock", Submitted: time.Now()}
	result := "results/" + string(id) + "/result.json"
	file := filepath.Join(f.dir, filepath.FromSlash(result))
	c, err := f.status.Claim(f.t.Context(), job, time.Minute, jobs.Claim{})
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(`{"job_id":"`+string(id)+`"}`), 0o666))
	}
	if err == nil {
		_, err = f.status.Finish(f.t.Context(), c, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: result}})
	}
	if err != nil {
		f.t.Fatal(err)
	}
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

func (f *testFleet) untilState(limit time.Duration, id jobs.ID, want string) {
	f.t.Helper()
	until(f.t, limit, fmt.Sprintf("job %s %s", id, want), func() bool { return f.state(id) == want })
}

// untilEnded waits until all of the jobs have ended, one way or another.
func (f *testFleet) untilEnded(limit time.Duration, ids []jobs.ID) {
	f.t.Helper()
	until(f.t, limit, "all jobs have ended", func() bool {
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
	until(f.t, time.Minute, "the queue is empty: "+f.queue(), func() bool {
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
