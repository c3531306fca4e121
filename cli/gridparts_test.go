package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// asGridPart is the environment variable that makes a process of the test binary a part of a grid: its value is a gridPart in JSON.
const asGridPart = "BATCHFLEET_TEST_GRID_PART"

// gridPart is what a process of the test is for the grid: a client that submits jobs until all have a result, or a worker whose jobs do nothing.
type gridPart struct {
	Leaders []string
	// Of a client.
	Base   wire.GUID // the ids of its jobs follow from it
	Jobs   int       // none for a worker
	Exec   string
	Every  time.Duration // one is submitted
	Ledger string        // a line for each result; a line of twice for a result that one process was told twice
	Grace  time.Duration
	// Of a worker.
	Dir, Ran string // for results; a line for each job that has run
}

// id is that of the nth job.
func (p *gridPart) id(n int) wire.GUID { return wire.ElementID(p.Base, int64(n)) }

// runGridPart is the main of such a process. It returns the exit code.
func runGridPart(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var p gridPart
	err := json.Unmarshal([]byte(text), &p)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	switch {
	case err != nil:
	case p.Jobs > 0:
		err = p.submit(ctx, log)
	default:
		err = p.work(ctx, log)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "part of a grid:", err)
		return 1
	}
	return 0
}

// gridLedger is where a client notes results, each on disk before its leader may forget it.
type gridLedger struct {
	*os.File
	mu    sync.Mutex
	noted map[wire.GUID]bool // also by earlier processes
	sure  map[wire.GUID]bool // submitted by this one, which so is told of one result
	left  chan struct{}      // closed when all have one
	jobs  int
}

func openGridLedger(path string, jobs int) (*gridLedger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &gridLedger{File: f, noted: map[wire.GUID]bool{}, sure: map[wire.GUID]bool{}, left: make(chan struct{}), jobs: jobs}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		id, _, _ := strings.Cut(lines.Text(), " ")
		if guid, err := wire.ParseGUID(id); err == nil {
			l.noted[guid] = true
		}
	}
	if len(l.noted) == jobs {
		close(l.left)
	}
	return l, nil
}

// isNoted reports whether a job has a result. If not, it is submitted now.
func (l *gridLedger) isNoted(id wire.GUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noted[id]
}

func (l *gridLedger) submitted(id wire.GUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.noted[id] {
		l.sure[id] = true
	}
}

func (l *gridLedger) note(r client.Result) error {
	result, err := r.Decode()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.noted[r.JobID] && l.sure[r.JobID]:
		_, err = fmt.Fprintln(l, "twice", r.JobID)
		return err
	case l.noted[r.JobID]: // to an earlier process, which has ended before its leader knew
		return nil
	}
	if _, err := fmt.Fprintln(l, r.JobID, result.Status, result.Reason); err != nil {
		return err
	}
	if err := l.Sync(); err != nil {
		return err
	}
	if l.noted[r.JobID] = true; len(l.noted) == l.jobs {
		close(l.left)
	}
	return nil
}

// submit submits the jobs that have no result yet, and waits until all have one.
func (p *gridPart) submit(ctx context.Context, log *slog.Logger) error {
	ledger, err := openGridLedger(p.Ledger, p.Jobs)
	if err != nil {
		return err
	}
	defer ledger.Close()
	m, err := client.New(client.Config{
		ClientID: "chaos", Leaders: p.Leaders, Desired: 12, Grace: p.Grace, OnResult: ledger.note, Log: log,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		failed = m.Run(ctx)
		stop()
	})
	for n := 0; n < p.Jobs && err == nil; n++ {
		id := p.id(n)
		if ledger.isNoted(id) {
			continue
		}
		if _, err = m.Submit(ctx, wire.JobRequest{JobID: id, ExecName: p.Exec}); err == nil {
			ledger.submitted(id)
		}
		if p.Every > 0 {
			<-time.After(p.Every)
		}
	}
	select {
	case <-ledger.left:
	case <-ctx.Done():
	}
	stop()
	running.Wait()
	if failed == nil {
		failed = err
	}
	return failed
}

// work runs jobs that do nothing but note that they ran.
func (p *gridPart) work(ctx context.Context, log *slog.Logger) error {
	const slots = 8
	ran, err := os.OpenFile(p.Ran, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer ran.Close()
	m := &member.Member{Leaders: p.Leaders, MaxParallel: slots, Pattern: "job.assign.null", Dir: p.Dir, Log: log}
	if err := m.Open(ctx); err != nil {
		return err
	}
	w := &worker.Worker{Source: m, Status: m, Log: slog.New(slog.DiscardHandler), Pools: []worker.Pool{{Slots: slots}}, Handlers: map[jobs.Kind]worker.Handler{
		member.Kind: m.Handler(nullHandler{ran}),
	}}
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { m.Run(connected) })
	stopDrain := context.AfterFunc(ctx, m.Drain)
	err = w.Run(ctx)
	stopDrain()
	disconnect()
	running.Wait()
	if closed := m.Close(); err == nil {
		err = closed
	}
	return err
}

// nullHandler notes jobs in a file.
type nullHandler struct{ ran *os.File }

// Run implements [worker.Handler].
func (h nullHandler) Run(_ context.Context, job jobs.Job, _ func(jobs.Progress)) (jobs.Result, error) {
	_, err := fmt.Fprintln(h.ran, job.ID)
	return jobs.Result{}, err
}

// Earlier implements [worker.Handler].
func (nullHandler) Earlier(context.Context, jobs.Job) (jobs.Result, bool, error) {
	return jobs.Result{}, false, nil
}
