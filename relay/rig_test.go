package relay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

const (
	testToken = "0123456789abcdef0123456789abcdef-token-canary"
	nextToken = "fedcba9876543210fedcba9876543210-next-canary"
)

// testKinds are the kinds of the tests. What their programs do is up to each test.
const testKinds = `
[motion]
command = ["true"]
[motion.params.prompt]
type = "string"
max_length = 16384
required = true
[motion.params.seed]
type = "integer"
min = 0
[motion.params.fps]
type = "integer"
min = 1
max = 240

[scene]
command = ["true"]
slots = 1
[scene.params.prompt]
type = "string"
max_length = 65536

[music]
command = ["true"]

[render]
command = ["true"]
gpus = 1

[upscale]
command = ["true", "--file={input}"]
`

// A program is what a test has the tasks of all kinds do: it returns the files that it makes.
type program func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (files map[string]string, err error)

// rig is a relay with a server and, once a program is started, a worker.
type rig struct {
	*Relay
	t    testing.TB
	log  *testlog.Buffer
	url  string
	stop func() // ends the worker, its deliveries and the relay
}

// setup returns a relay that is not open, in a directory of its own.
func setup(tb testing.TB, dir string) *rig {
	tb.Helper()
	set, err := kinds.Parse("kinds.toml", []byte(testKinds))
	if err != nil {
		tb.Fatal(err)
	}
	log := &testlog.Buffer{}
	return &rig{t: tb, log: log, stop: func() {}, Relay: &Relay{
		Dir: filepath.Join(dir, "relay_runtime"), Kinds: func() *kinds.Set { return set }, HasGPUs: true,
		Access:  Access{Tokens: []string{testToken, nextToken}, Allowed: DefaultAllowed},
		Log:     slog.New(slog.NewJSONHandler(log, nil)),
		Metrics: NewMetrics(prometheus.NewRegistry()), MaxQueued: 1000, Keep: 24 * time.Hour,
	}}
}

// open opens the relay and serves it, until the test ends or stop is called.
func (r *rig) open() *rig {
	r.t.Helper()
	r.alone()
	server := httptest.NewServer(r.Handler())
	r.url = server.URL
	closeRelay := r.stop
	r.stop = sync.OnceFunc(func() {
		server.Close()
		closeRelay()
	})
	return r
}

// alone opens the relay without a server of its own: in a bubble of testing/synctest requests go through serve.
func (r *rig) alone() *rig {
	r.t.Helper()
	if err := r.Open(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		if err := r.Close(); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(func() { r.stop() })
	return r
}

// while has something run until stop is called.
func (r *rig) while(run func(ctx context.Context)) *rig {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	closeRelay := r.stop
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		closeRelay()
	})
	return r
}

// deliver delivers until stop is called; no program runs.
func (r *rig) deliver() *rig { return r.while(r.Run) }

func newRig(t *testing.T) *rig {
	t.Helper()
	return setup(t, testrun.MemoryDir(t)).open()
}

// run runs tasks by a program, and deliveries, until stop is called.
func (r *rig) run(do program, pools ...worker.Pool) {
	r.t.Helper()
	store, err := r.OpenStore()
	if err != nil {
		r.t.Fatal(err)
	}
	handlers := map[jobs.Kind]worker.Handler{}
	for _, k := range r.Kinds().Kinds {
		handlers[k.Name] = &programHandler{store: store, do: do}
	}
	w := &worker.Worker{
		Source: r.Source(), Status: r.Status(), Handlers: handlers, Log: r.Log, Metrics: worker.NewMetrics("test"), Pools: pools, Drain: 1,
		Checks: map[string]func(context.Context) error{"disk": r.Check}, LeaseTTL: time.Hour, ProgressInterval: time.Millisecond,
	}
	r.deliver().while(func(ctx context.Context) {
		defer store.Close()
		_ = w.Run(ctx) // the source refuses nothing
	})
}

type programHandler struct {
	store storage.Store
	do    program
}

// Run implements worker.Handler.
func (h *programHandler) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	files, err := h.do(ctx, job, report)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return jobs.Result{}, err
	}
	r := artifact.Result{JobID: job.ID, Kind: string(job.Kind), Attempt: 1}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		a, err := artifact.Put(ctx, h.store, job.ID, name, strings.NewReader(files[name]), func() {})
		if err != nil {
			return jobs.Result{}, err
		}
		r.Artifacts = append(r.Artifacts, a)
	}
	return artifact.Finish(ctx, h.store, r, math.MaxInt32)
}

// Earlier implements worker.Handler.
func (h *programHandler) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

// makes returns a program that makes these files.
func makes(files map[string]string) program {
	return func(context.Context, jobs.Job, func(jobs.Progress)) (map[string]string, error) { return files, nil }
}

// response is an answer of the relay.
type response struct {
	Status int
	Header http.Header
	Body   string
}

// call makes a request with the relay's token, and the headers given as name, value, name, value.
func (r *rig) call(method, path, body string, header ...string) response {
	r.t.Helper()
	return r.callAs(testToken, method, path, body, header...)
}

func (r *rig) callAs(token, method, path, body string, header ...string) response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set(TokenHeader, token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, string(text)}
}

// code returns the error code of an answer.
func (resp response) code() string {
	var body struct {
		Error struct{ Code string }
	}
	_ = json.Unmarshal([]byte(resp.Body), &body) // the code is then missing
	return body.Error.Code
}

// field returns the field that an error is about.
func (resp response) field() string {
	var body struct {
		Error struct{ Details struct{ Field string } }
	}
	_ = json.Unmarshal([]byte(resp.Body), &body) // the field is then missing
	return body.Error.Details.Field
}

// create creates a task and returns its id. The body is that of a small one when empty.
func (r *rig) create(body string, header ...string) jobs.ID {
	r.t.Helper()
	resp := r.call(http.MethodPost, "/v1/tasks", cmp.Or(body, `{"job_id":"job_123","kind":"music"}`), header...)
	var made struct {
		ID jobs.ID `json:"task_id"`
	}
	if err := json.Unmarshal([]byte(resp.Body), &made); err != nil || resp.Status != http.StatusAccepted || made.ID == "" {
		r.t.Fatalf("create: %d %s", resp.Status, resp.Body)
	}
	return made.ID
}

// task returns a task.
func (r *rig) task(id jobs.ID) *Task {
	r.t.Helper()
	t, err := r.tasks.Get(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// until waits until a task fulfils a condition, and returns it.
func (r *rig) until(id jobs.ID, what string, is func(*Task) bool) *Task {
	r.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		changed := r.tasks.Changed()
		t := r.task(id)
		if is(t) {
			return t
		}
		select {
		case <-changed:
		case <-deadline.C:
			text, _ := json.Marshal(t) // to be looked at
			r.t.Fatalf("task is not %s: %s\n%s", what, text, r.log)
		}
	}
}

func (r *rig) untilState(id jobs.ID, want State) *Task {
	r.t.Helper()
	return r.until(id, want.String(), func(t *Task) bool { return t.State == want })
}

// onDisk returns a task as task.json has it.
func (r *rig) onDisk(id jobs.ID) *Task {
	r.t.Helper()
	text, err := r.tasks.dir.read(id, maxTaskFile, taskFile)
	if err != nil {
		r.t.Fatal(err)
	}
	t, err := parse(id, text)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// again stops the relay as a process is killed between two steps, and opens another one on its directory.
func (r *rig) again(change func(*rig)) *rig {
	r.t.Helper()
	r.stop()
	next := r.at(filepath.Dir(r.Dir))
	if change != nil {
		change(next)
	}
	return next.open()
}

// at returns a relay like this one in a directory, which is not open.
func (r *rig) at(dir string) *rig {
	r.t.Helper()
	next := setup(r.t, dir)
	next.Orchestrator, next.Presigned, next.Callbacks, next.Storage, next.Secret = r.Orchestrator, r.Presigned, r.Callbacks, r.Storage, r.Secret
	return next
}

// put stores a file that the program of a task has made.
func (r *rig) put(id jobs.ID, name, content string) artifact.Artifact {
	r.t.Helper()
	store, err := r.OpenStore()
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	a, err := artifact.Put(r.t.Context(), store, id, name, strings.NewReader(content), func() {})
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// read returns what is in a file.
func (r *rig) read(path string) string {
	r.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// compact returns JSON in one form.
func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return b.String()
}
