package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox"
	"github.com/batchfleet/batchfleet/storage"
)

// Agent connects the loop of package worker to a control plane: it is the loop's
// worker.Source and its worker.Status. Leases, results and failures are kept in a
// directory, and delivered until the control plane has decided on them.
//
// Set the exported fields, call [Agent.Open], then [Agent.Run] beside the loop's
// Run; end it after the loop's has returned, and [Agent.Close]. All methods but
// those may be called concurrently.
type Agent struct {
	Gateway ControlPlane
	Kind    jobs.Kind     // that runs the gateway's jobs of kind zpe; empty for a worker that runs none
	Kinds   []jobs.Kind   // what else it runs, as the gateway calls it; see SetKinds
	Store   storage.Store // where the handler puts its results
	Dir     string        // for held leases and undelivered results; one process at a time
	Log     *slog.Logger
	// Encode turns the object that a handler has stored into the report of its job,
	// without the lease id. Only the kind knows the fields; the agent sends what it
	// gets. An error is final: the job fails with RESULT_INVALID.
	Encode func(result []byte) (wire.ResultRequest, error)
	// EncodeKind is Encode for the jobs of Kinds.
	EncodeKind func(kind jobs.Kind, result []byte) (wire.ResultRequest, error)
	// Forget deletes the files that a handler keeps of a job, when they are no longer
	// needed. Nil when there are none.
	Forget func(context.Context, jobs.ID) error

	outbox *outbox.Box
	ready  chan struct{}   // closed after the first attempt of each recovered delivery
	watch  chan *heldLease // which run for a while, so that Run starts a goroutine that watches for a cancel
	ended  chan struct{}   // closed when Run ends

	recovered []*outbox.Delivery // what an earlier process has left

	mu       sync.Mutex
	paces    map[string]*pace        // of requests for jobs, by the kinds that they are for
	known    map[jobs.Kind]knowledge // which of Kinds the control plane has
	leases   map[string]*heldLease   // by lease id: running, or to be delivered
	retained []entry                 // ended leases whose handlers' files are kept for a while
}

// heldLease is a lease whose job runs, or whose end is not yet delivered.
type heldLease struct {
	io sync.Mutex // held while the entry is changed on disk

	// Guarded by Agent.mu.
	entry
	attempt       int  // of the job, from 1; 0 for a lease of an earlier process
	failures      int  // of the job, in earlier attempts
	clean         bool // no files of the job are in the worker's store
	mismatches    int  // how often an artifact has arrived as something else
	claimed       bool
	lost          bool           // the control plane has decided so
	canceled      bool           // a cancel was requested
	releaseReason string         // why it is being handed back
	progress      *wire.Progress // the newest
	message       string
	lines         waitingLines // of the job's log
	unsent        bool         // progress or message are newer than the last heartbeat
	extendedAt    time.Time    // by the last heartbeat, or when it was asked for
	progressAt    time.Time    // when progress was last sent
	stopListening func()       // ends watchCancel, or keeps it from beginning; nil before

	// Guarded by io.
	delivery  *outbox.Delivery // set when there is a result or a failure
	unwritten bool             // which is not on disk, nor decided on
}

// maxUndelivered is how many results and failures may wait before no more jobs are leased.
const maxUndelivered = 100

// Open locks the directory and reads what an earlier process has left there. It
// fails when another process uses the directory.
func (a *Agent) Open(ctx context.Context) error {
	entries, err := a.openOutbox(ctx)
	if err != nil {
		return err
	}
	a.ready, a.ended, a.watch = make(chan struct{}), make(chan struct{}), make(chan *heldLease)
	a.leases, a.paces, a.known = map[string]*heldLease{}, map[string]*pace{}, map[jobs.Kind]knowledge{}
	if err := a.recover(ctx, entries); err != nil {
		return errors.Join(err, a.outbox.Close())
	}
	return nil
}

// recover takes over the leases of an earlier process: its results and failures are
// delivered, and the jobs it was running have failed.
func (a *Agent) recover(ctx context.Context, entries []entry) error {
	for _, e := range entries {
		if e.State == stepRetained {
			a.retained = append(a.retained, e)
			continue
		}
		log := a.Log.With("job", e.JobID, "lease", e.LeaseID)
		if e.State == stepRunning {
			log.WarnContext(ctx, "an earlier run of this worker ended while it ran a job, reporting a failure")
			e.State, e.EndedAt = stepFailed, time.Now().UTC()
			e.Failed = failedRequest(e.LeaseID, wire.FailWorkerRestart, "the worker was restarted while it ran the job", "", true)
			if err := a.putEntry(e); err != nil {
				return fmt.Errorf("write state directory: %w", err)
			}
		} else {
			log.InfoContext(ctx, "delivering the outcome of an earlier run of this worker", "outcome", e.State)
		}
		h := &heldLease{entry: e}
		a.leases[e.LeaseID] = h
		a.deliver(h)
		a.recovered = append(a.recovered, h.delivery)
	}
	return nil
}

// Close lets another process have the directory.
func (a *Agent) Close() error { return a.outbox.Close() }

const (
	// recoveryWait is how long leasing waits for the first attempts to deliver the
	// outcomes of an earlier process.
	recoveryWait = 15 * time.Second
	// finalCallTimeout is how long calls may take that are under way when Run ends. What
	// does not arrive is delivered by the next process.
	finalCallTimeout = 5 * time.Second
	dropEvery        = time.Hour
)

// Run delivers results and failures, and keeps the client's token fresh, until
// ctx ends; then it returns within a few seconds. It owns every goroutine it
// starts. Jobs are leased only while it runs.
func (a *Agent) Run(ctx context.Context) {
	var background sync.WaitGroup
	defer background.Wait()
	defer close(a.ended)
	if c, ok := a.Gateway.(interface {
		KeepToken(ctx context.Context, log *slog.Logger)
	}); ok {
		background.Go(func() { c.KeepToken(ctx, a.Log) })
	}
	background.Go(func() { a.outbox.Run(ctx) })
	background.Go(func() { a.dropOldEvery(ctx) })
	background.Go(func() {
		a.allowLeasing(ctx)
		a.keepLooking(ctx)
	})
	for {
		select {
		case <-ctx.Done():
			return
		case h := <-a.watch:
			background.Go(func() { a.watchCancel(ctx, h) })
		}
	}
}

// allowLeasing lets Lease begin after the first attempt of each recovered delivery, and of asking
// for the worker's kinds.
func (a *Agent) allowLeasing(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, recoveryWait)
	defer cancel()
	for _, d := range a.recovered {
		_ = d.Wait(limited) // its outcome is in the log
	}
	a.lookForKinds(limited)
	close(a.ready)
}

// find returns the lease with the given id, nil if it is not held.
func (a *Agent) find(lease string) *heldLease {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leases[lease]
}

// Check returns an error when no more jobs should be leased: outcomes cannot be written
// to disk, or too many wait for delivery. It is for worker.Checks.
func (a *Agent) Check(context.Context) error {
	if err := a.outbox.Check(); err != nil {
		return fmt.Errorf("check state directory %s: %w: %w", a.Dir, jobs.ErrUnavailable, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, h := range a.leases {
		if h.State != stepRunning {
			n++
		}
	}
	if n >= maxUndelivered {
		return fmt.Errorf("%w: %d results and failures wait for delivery, no jobs are leased until the gateway accepts them", jobs.ErrUnavailable, n)
	}
	return nil
}
