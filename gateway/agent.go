package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Agent makes of a control plane what the loop of package worker needs: it is
// its worker.Source and its worker.Status. What must not be lost with the
// process is kept in a directory, and delivered until the control plane has
// decided on it.
//
// Set the exported fields, call [Agent.Open], then [Agent.Run] beside the loop's
// Run; end it after the loop's has returned, and [Agent.Close]. All methods but
// those may be called concurrently.
type Agent struct {
	Gateway ControlPlane
	Kind    jobs.Kind     // of all jobs from there
	Store   storage.Store // where the handler puts its results
	Dir     string        // for leases and results in hand; one process at a time
	Log     *slog.Logger
	// Forget deletes what a handler keeps of a job, once nobody needs it. Nil
	// when there is nothing.
	Forget func(context.Context, jobs.ID) error

	outbox *outbox
	pace   *pace
	wake   chan struct{} // there is something in todo or fresh
	ready  chan struct{} // closed when what an earlier process has left behind was told once
	ended  chan struct{} // closed when Run delivers no more

	mu    sync.Mutex
	hands map[string]*hand // by lease id: in the loop's hands, or to be delivered
	left  []entry          // whose handler's files are kept for a while
	todo  []*hand          // to be delivered, not yet begun
	fresh []*hand          // claimed, not yet listened for
}

// hand is a lease this agent has something to do with.
type hand struct {
	io sync.Mutex // held while the entry is changed on disk

	// Guarded by Agent.mu.
	entry
	attempt  int // which run of the job this is, from 1; 0 for one of an earlier process
	claimed  bool
	lost     bool      // the control plane says so
	canceled bool      // somebody has asked for the job to be stopped
	note     string    // why it is being handed back
	progress *Progress // the newest
	message  string
	unsent   bool // progress or message are newer than the last heartbeat
	beatAt   time.Time
	beatsAt  time.Time          // when progress was last sent
	hush     context.CancelFunc // ends its listener; nil while there is none

	tried chan struct{} // closed when it was tried once to deliver it
	fate  error         // then: nil if delivered or not yet decided, jobs.ErrLeaseLost if it came too late
}

func newHand(e entry) *hand { return &hand{entry: e, tried: make(chan struct{})} }

// How much may wait for delivery before no more jobs are taken.
const maxUndelivered = 100

// Open locks the directory and reads what an earlier process has left there. It
// fails when another process uses the directory.
func (a *Agent) Open(ctx context.Context) error {
	outbox, entries, err := openOutbox(ctx, a.Dir, a.Log)
	if err != nil {
		return err
	}
	a.outbox, a.pace = outbox, newPace()
	a.wake, a.ready, a.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	a.hands = map[string]*hand{}
	if err := a.recover(ctx, entries); err != nil {
		return errors.Join(err, outbox.close())
	}
	return nil
}

// recover decides what becomes of the leases of a process that has ended: its
// results and failures are delivered, and what it was running has failed.
func (a *Agent) recover(ctx context.Context, entries []entry) error {
	for _, e := range entries {
		if e.State == stepLeft {
			a.left = append(a.left, e)
			continue
		}
		log := a.Log.With("job", e.JobID, "lease", e.LeaseID)
		if e.State == stepRunning {
			log.WarnContext(ctx, "an earlier run of this worker ended while it ran a job, which is reported")
			e.State, e.EndedAt = stepFailed, time.Now().UTC()
			e.Failed = failedAsk(e.LeaseID, FailWorkerRestart, "the worker was restarted while it ran the job", "", true)
			if err := a.outbox.put(e); err != nil {
				return fmt.Errorf("write state directory: %w", err)
			}
		} else {
			log.InfoContext(ctx, "an earlier run of this worker has left something to deliver", "what", e.State)
		}
		h := newHand(e)
		a.hands[e.LeaseID] = h
		a.todo = append(a.todo, h)
	}
	return nil
}

// Close lets another process have the directory.
func (a *Agent) Close() error { return a.outbox.close() }

const (
	// startPatience is how long leasing waits until what an earlier process has
	// left behind was told once.
	startPatience = 15 * time.Second
	// lastWord is how long deliveries on their way may take when Run ends. What
	// does not arrive is delivered by the next process.
	lastWord   = 5 * time.Second
	sweepEvery = time.Hour
)

// Run delivers results and failures, and keeps the client's token fresh, until
// ctx ends; then it returns within a few seconds. It owns every goroutine it
// starts. Jobs are leased only while it runs.
func (a *Agent) Run(ctx context.Context) {
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	var background, deliveries sync.WaitGroup
	if c, ok := a.Gateway.(interface {
		KeepToken(ctx context.Context, log *slog.Logger)
	}); ok {
		background.Go(func() { c.KeepToken(ctx, a.Log) })
	}
	background.Go(func() { a.sweep(ctx) })

	results := make(chan struct{}, 2) // uploads at once: each holds a result in memory
	start := func() []*hand {
		begun, claimed := a.take()
		for _, h := range claimed {
			background.Go(func() { a.listen(ctx, h) })
		}
		for _, h := range begun {
			deliveries.Go(func() { a.deliver(ctx, work, h, results) })
		}
		return begun
	}
	old := start()
	background.Go(func() { a.letLease(ctx, old) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-a.wake:
			start()
		}
	}
	start() // what was handed in at the last moment is tried once
	close(a.ended)
	overdue := time.AfterFunc(lastWord, func() { abort(errStopping) })
	deliveries.Wait()
	overdue.Stop()
	background.Wait()
}

var errStopping = errors.New("the worker is stopping")

// letLease opens the way for Lease.
func (a *Agent) letLease(ctx context.Context, old []*hand) {
	patience, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for _, h := range old {
		select {
		case <-h.tried:
		case <-patience.Done():
		}
	}
	close(a.ready)
}

func (a *Agent) take() (todo, fresh []*hand) {
	a.mu.Lock()
	defer a.mu.Unlock()
	todo, fresh = a.todo, a.fresh
	a.todo, a.fresh = nil, nil
	return todo, fresh
}

// nudge tells Run that there is something in todo or fresh.
func (a *Agent) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// hand returns the lease with the given id, nil if it is not ours (any more).
func (a *Agent) hand(lease string) *hand {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hands[lease]
}

// Check reports whether what jobs end with could be kept. It is for worker.Checks.
func (a *Agent) Check(context.Context) error {
	if err := a.outbox.check(); err != nil {
		return fmt.Errorf("check state directory %s: %w: %w", a.Dir, jobs.ErrUnavailable, err)
	}
	return a.room()
}

// room reports whether another job may be taken: not when too much waits for
// delivery.
func (a *Agent) room() error {
	a.mu.Lock()
	n := 0
	for _, h := range a.hands {
		if h.State != stepRunning {
			n++
		}
	}
	a.mu.Unlock()
	if n >= maxUndelivered {
		return fmt.Errorf("%w: %d results and failures wait for delivery, no more jobs are taken until the gateway takes them", jobs.ErrUnavailable, n)
	}
	return nil
}
