package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// switched is a worker that the test makes ready and unready. The output of its jobs is its name.
type switched struct {
	*fleet
	name    string
	unready atomic.Bool
	member  *member.Member
	loop    *worker.Worker
	metrics *prometheus.Registry // of the member
	writes  sync.RWMutex         // while it is locked, nothing that the worker says reaches the leader
}

// held is a connection of such a worker.
type held struct {
	net.Conn
	writes *sync.RWMutex
}

func (h held) Write(p []byte) (int, error) {
	h.writes.RLock()
	defer h.writes.RUnlock()
	return h.Conn.Write(p)
}

// Run implements [worker.Handler].
func (s *switched) Run(_ context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	id, err := wire.ParseGUID(string(job.ID))
	if err != nil {
		return jobs.Result{}, err
	}
	text, err := wire.MarshalResult(&wire.JobResult{JobID: id, ClientID: "clientA", ExecName: "calcA", Status: wire.OK, Stdout: s.name})
	return jobs.Result{Text: string(text)}, err
}

// Earlier implements [worker.Handler].
func (*switched) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}

// switchedWorker runs one until the test ends. It is unready at first, and connected.
func (f *fleet) switchedWorker(name string) *switched {
	f.t.Helper()
	s := &switched{fleet: f, name: name, metrics: prometheus.NewRegistry()}
	s.unready.Store(true)
	s.member = &member.Member{
		Leaders: []string{f.addr}, MaxParallel: 2, Dir: f.t.TempDir(), Log: quiet, Metrics: member.NewMetrics(s.metrics),
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return held{conn, &s.writes}, err
		},
	}
	if err := s.member.Open(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := s.member.Close(); err != nil {
			f.t.Error(err)
		}
	})
	s.loop = &worker.Worker{
		Source: s.member, Status: s.member, Log: quiet, Pools: []worker.Pool{{Slots: 2}}, Drain: 1, IdleCheck: 10 * time.Millisecond,
		Handlers: map[jobs.Kind]worker.Handler{member.Kind: s.member.Handler(s)},
		Checks: map[string]func(context.Context) error{"disk": func(context.Context) error {
			if s.unready.Load() {
				return errors.New("the disk is full")
			}
			return nil
		}},
	}
	f.background(s.member.Run)
	f.background(func(ctx context.Context) {
		if err := s.loop.Run(ctx); err != nil {
			f.t.Error(err)
		}
	})
	f.until(func() bool { return s.member.Probe(f.t.Context()) == nil })
	return s
}

// set makes the worker ready, or not.
func (s *switched) set(ready bool) {
	s.t.Helper()
	s.unready.Store(!ready)
	s.until(func() bool { return (s.loop.Ready() == nil) == ready })
}

// until waits for something, and fails the test if it does not come.
func (f *fleet) until(is func() bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for !is() {
		if jobs.Sleep(ctx, time.Millisecond) != nil {
			f.t.Fatal("it has not come within a minute")
		}
	}
}

// wantRuns submits n jobs, and fails the test unless a worker runs them all.
func (f *fleet) wantRuns(n int, by *switched) {
	f.t.Helper()
	for range n {
		j, err := f.client.Submit(f.t.Context(), wire.JobRequest{ExecName: "calcA"})
		if err != nil {
			f.t.Fatal(err)
		}
		defer f.wantRun(j, by)
	}
}

func (f *fleet) wantRun(j *client.Job, by *switched) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	if r, err := j.Wait(ctx); err != nil || r.Stdout != by.name {
		f.t.Errorf("job %s is run by worker %q, want %q: %+v, %v", j.ID, r.Stdout, by.name, r, err)
	}
}

func TestG34JobsGoToReadyWorkers(t *testing.T) {
	f := &fleet{t: t, leader: &leader.Leader{Log: quiet}, lines: map[string]*line{"client": {}}}
	f.startLeader()
	f.startClient()
	one, two := f.switchedWorker("one"), f.switchedWorker("two")
	two.set(true)
	f.wantRuns(20, two)
	if n, err := testutil.GatherAndCount(one.metrics, "batchfleet_grid_assigned_total"); n > 0 || err != nil {
		t.Errorf("jobs were assigned to a worker that has never been ready, %v", err)
	}
	two.set(false)
	one.set(true)
	f.wantRuns(20, one)

	// The leader does not hear of it when a worker becomes unready, and gives it one more job.
	one.writes.Lock()
	release := sync.OnceFunc(one.writes.Unlock)
	defer release()
	one.set(false)
	j, err := f.client.Submit(t.Context(), wire.JobRequest{ExecName: "calcA"})
	if err != nil {
		t.Fatal(err)
	}
	f.until(func() bool {
		s, err := f.client.Query(t.Context(), j.ID)
		return err == nil && s.State == "running"
	})
	release()
	two.set(true)
	f.wantRun(j, two)
}
