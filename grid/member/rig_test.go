package member_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox/outboxtest"
	"github.com/batchfleet/batchfleet/worker"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	testrun.CollectSeldom()
	goleak.VerifyTestMain(m)
}

// handler runs jobs as a function.
type handler func(ctx context.Context, job jobs.Job) (jobs.Result, error)

func (h handler) Run(ctx context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	return h(ctx, job)
}

func (handler) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

func answer(_ context.Context, job jobs.Job) (jobs.Result, error) { return ok(job, "4") }

// ok is the result of a job that has written out.
func ok(job jobs.Job, out string) (jobs.Result, error) {
	return jobs.Result{Text: resultText(job, wire.OK, out)}, nil
}

func resultText(job jobs.Job, status, out string) string {
	id, err := wire.ParseGUID(string(job.ID))
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(wire.JobResult{JobID: id, ClientID: "clientA", ExecName: "calcA", Status: status, Stdout: out})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// untilStopped is a job that ends when it is told to.
func untilStopped(ctx context.Context, _ jobs.Job) (jobs.Result, error) {
	<-ctx.Done()
	return jobs.Result{}, context.Cause(ctx)
}

// rig is a worker with scripted leaders.
type rig struct {
	*testing.T
	leaders []*leader
	log     *testlog.Buffer
	dir     string
	handler handler
	talk    func(jobs.Attempt) // what jobs do before the handler, or nil
	member  *member.Member
	worker  *worker.Worker
	stop    func() // tells the loop to stop; returns when the worker has ended

	mu   sync.Mutex
	runs []string // the jobs that were started, by the last digits of their id
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// test runs f in a bubble, with a worker that has two slots.
func test(t *testing.T, leaders int, f func(r *rig)) {
	t.Helper()
	dir := testrun.MemoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, log: &testlog.Buffer{}}
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(r.log.String())
			}
		})
		var addrs []string
		for i := range leaders {
			l := &leader{rig: r, addr: fmt.Sprintf("leader%d:5000", i), features: features, net: testnet.NewPipes()}
			r.leaders = append(r.leaders, l)
			addrs = append(addrs, l.addr)
			var serving sync.WaitGroup
			serving.Go(l.serve)
			t.Cleanup(func() { _ = l.net.Close(); l.hangUp(); serving.Wait() })
		}
		r.dir = dir
		r.another(addrs...)
		defer func() {
			if r.stop != nil {
				r.stop()
			}
		}()
		f(r)
	})
}

// another makes another member, in the same directory.
func (r *rig) another(leaders ...string) {
	r.member = &member.Member{
		Leaders: leaders, MaxParallel: 2, Dir: r.dir, Log: r.logger(), Host: "test",
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			i := slices.IndexFunc(r.leaders, func(l *leader) bool { return l.addr == addr })
			if r.leaders[i].dial() {
				return nil, fmt.Errorf("dial %s: connection refused", addr)
			}
			return r.leaders[i].net.Dial(ctx, "", "")
		},
	}
	r.worker = &worker.Worker{Pools: []worker.Pool{{Slots: 2}}}
}

// start runs the worker; jobs are run by h.
func (r *rig) start(h handler) {
	r.Helper()
	if err := r.member.Open(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.handler = h
	counted := handler(func(ctx context.Context, job jobs.Job) (jobs.Result, error) {
		r.mu.Lock()
		r.runs = append(r.runs, string(job.ID[len(job.ID)-2:]))
		r.mu.Unlock()
		return h(ctx, job)
	})
	r.worker.Source, r.worker.Status, r.worker.Log = r.member, r.member, r.logger()
	r.worker.Handlers = map[jobs.Kind]worker.Handler{member.Kind: r.member.Handler(counted)}
	if r.talk != nil {
		r.worker.Handlers[member.Kind] = r.member.Handler(talker{counted, r.talk})
	}
	if r.worker.Checks == nil {
		r.worker.Checks = map[string]func(context.Context) error{"results": r.member.Check}
	}
	if r.worker.Drain == 0 {
		r.worker.Drain = 8 * time.Second
	}
	loop, stopLoop := context.WithCancel(context.Background())
	delivering, stopDelivering := context.WithCancel(context.Background())
	context.AfterFunc(loop, r.member.Drain)
	var running, delivered sync.WaitGroup
	running.Go(func() {
		if err := r.worker.Run(loop); err != nil {
			r.Errorf("the loop has ended: %v", err)
		}
	})
	delivered.Go(func() { r.member.Run(delivering) })
	r.stop = func() {
		stopLoop()
		running.Wait()
		stopDelivering()
		delivered.Wait()
		if err := r.member.Close(); err != nil {
			r.Error(err)
		}
		r.stop = nil
	}
	synctest.Wait()
}

func (r *rig) started() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.runs, " ")
}

// undelivered returns the names of the results that are on disk.
func (r *rig) undelivered() string {
	r.Helper()
	synctest.Wait()
	entries, err := outboxtest.Entries(r.member.Dir)
	if err != nil {
		r.Fatal(err)
	}
	return strings.Join(slices.Sorted(maps.Keys(entries)), " ")
}
