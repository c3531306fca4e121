package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox/outboxtest"
	"github.com/batchfleet/batchfleet/processor/zpe"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	testrun.CollectSeldom() // weeks of virtual time are many calls
	goleak.VerifyTestMain(m)
}

// rig is a control plane, the way to it, and what a worker has on its disk.
type rig struct {
	t       *testing.T
	plane   *plane
	dir     string
	token   string // its file
	store   *storage.Local
	log     *testlog.Buffer
	handler handler
	slots   int
	adjust  func(*worker.Worker)

	kinds []jobs.Kind
	kind  *jobs.Kind // of zpe, when it is another

	forgets time.Duration // how long it takes to delete the files of a job

	forgotten []jobs.ID
	mu        sync.Mutex
}

// handler runs jobs as a function.
type handler func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error)

func (h handler) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	return h(ctx, job, report)
}

func (handler) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := testrun.MemoryDir(t)
	store, err := storage.NewLocal(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := &rig{t: t, plane: newPlane(), dir: filepath.Join(dir, "state"), token: filepath.Join(dir, "token"), store: store, log: &testlog.Buffer{}, slots: 1}
	r.handler = func(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
		return r.put(ctx, job)
	}
	if err := r.saveToken(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) saveToken() error {
	now := time.Now().UTC()
	return gateway.SaveToken(r.token, gateway.Token{WorkerID: "w-1", Token: theToken, IssuedAt: now, ExpiresAt: now.Add(tokenLife)})
}

const someResult = `{"result":{"zpe_ev":0.26640000000000003,"n":123456789012345678901234567890,"tiny":1e-17},"summary_text":"ZPE <0.27> eV & more","freqs_csv":"a,b\n1,2\n","meta":{"worker_hostname":"h"}}`

// put stores a result as handlers do.
func (r *rig) put(ctx context.Context, job jobs.Job) (jobs.Result, error) {
	name := "results/" + string(job.ID) + "/result.json"
	return jobs.Result{Object: name, Pages: 7}, r.store.Put(ctx, name, strings.NewReader(someResult))
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (r *rig) agent(cp gateway.ControlPlane) *gateway.Agent {
	kind := jobs.Kind("zpe")
	if r.kind != nil {
		kind = *r.kind
	}
	return &gateway.Agent{
		Gateway: cp, Kind: kind, Kinds: r.kinds, Store: r.store, Dir: r.dir, Log: r.logger(), Encode: encodeReport,
		EncodeKind: func(_ jobs.Kind, result []byte) (wire.ResultRequest, error) {
			return wire.ResultRequest{Result: result}, nil
		},
		Forget: func(ctx context.Context, id jobs.ID) error {
			time.Sleep(r.forgets)
			r.mu.Lock()
			r.forgotten = append(r.forgotten, id)
			r.mu.Unlock()
			return r.store.Delete(ctx, "results/"+string(id)+"/result.json")
		},
	}
}

// encodeReport takes apart what put stores.
func encodeReport(result []byte) (wire.ResultRequest, error) {
	r, err := zpe.ParseReport(result)
	return wire.ResultRequest{Result: r.Result, SummaryText: r.SummaryText, FreqsCSV: r.FreqsCSV, Meta: r.Meta}, err
}

func (r *rig) worker(a *gateway.Agent) *worker.Worker {
	w := &worker.Worker{
		Source: a, Status: a, Handlers: map[jobs.Kind]worker.Handler{"zpe": r.handler}, Log: r.logger(),
		Pools: []worker.Pool{{Slots: r.slots}}, JobTimeout: 100 * time.Hour, StallTimeout: 100 * time.Hour, MaxRuntime: 0,
		Checks: map[string]func(context.Context) error{"state": a.Check},
	}
	if r.adjust != nil {
		r.adjust(w)
	}
	return w
}

// work runs a worker in fake time, over HTTP, until during returns; then it is
// stopped as by a first SIGTERM. It returns what the worker's Run did.
func (r *rig) work(during func()) error {
	r.t.Helper()
	l := testnet.NewPipes()
	srv := &http.Server{Handler: r.plane, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	defer synctest.Wait() // the last calls are answered, so tests may look at what the plane saw
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	defer serving.Wait()
	defer srv.Close()
	tokens, err := gateway.OpenTokenFile(r.token)
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := gateway.NewClient(gateway.ClientConfig{URL: "http://127.0.0.1:1", Tokens: tokens, Version: "1.2.3"})
	if err != nil {
		r.t.Fatal(err)
	}
	client.DialWith(l.Dial)
	defer client.Close()
	a := r.agent(client)
	if err := a.Open(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	agent, end := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { a.Run(agent) })
	defer background.Wait()
	defer end()
	failed := make(chan error, 1)
	go func() { failed <- r.worker(a).Run(ctx) }()
	during()
	stop()
	return <-failed
}

// test runs f in fake time.
func test(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t)) })
}

func (r *rig) forgot() []jobs.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.forgotten)
}

// files returns the files of a directory of the state.
func (r *rig) files(sub string) []string {
	r.t.Helper()
	files, err := os.ReadDir(filepath.Join(r.dir, sub))
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Join(r.dir, sub, f.Name()))
	}
	return names
}

// entries returns what the agent has on disk of its leases, by name.
func (r *rig) entries() map[string]string {
	r.t.Helper()
	entries, err := outboxtest.Entries(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return entries
}

func (r *rig) wantSaid(want ...string) {
	r.t.Helper()
	if got := r.plane.said(); !slices.Equal(got, want) {
		r.t.Errorf("the control plane saw %q, want %q\nlog:\n%s", got, want, r.log)
	}
}

func (r *rig) wantLogged(words ...string) {
	r.t.Helper()
	for _, w := range words {
		if !strings.Contains(r.log.String(), w) {
			r.t.Errorf("the log lacks %q:\n%s", w, r.log)
		}
	}
}

// untilStopped is a handler that runs until it is told to stop.
func untilStopped(ctx context.Context, _ jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	<-ctx.Done()
	return jobs.Result{}, context.Cause(ctx)
}

// lasting is a handler that takes d.
func (r *rig) lasting(d time.Duration) handler {
	return func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		select {
		case <-time.After(d):
			return r.put(ctx, job)
		case <-ctx.Done():
			return jobs.Result{}, fmt.Errorf("stopped: %w", context.Cause(ctx))
		}
	}
}

// workWith runs a worker of one other kind with an agent, until during returns.
func (r *rig) workWith(a *gateway.Agent, kind jobs.Kind, during func()) {
	r.t.Helper()
	if err := a.Open(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	ctx, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { a.Run(ctx) })
	w := r.worker(a)
	w.Handlers = map[jobs.Kind]worker.Handler{kind: a.Handler(r.handler)}
	background.Go(func() { _ = w.Run(ctx) })
	during()
	stop()
	background.Wait()
}
