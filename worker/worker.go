// Package worker runs jobs under leases: it takes a lease from a [Source],
// claims the job at a [Status], runs the [Handler] of the job's kind while it
// keeps the lease alive, records the outcome and only then acks.
//
// The loop exists once. A transport (Pub/Sub here; others elsewhere) is only a
// Source, and what a job does is only a Handler; neither knows of the other.
// Package memory has a Source and a Status for one process, and package workertest
// checks what is written for another.
//
// A job's own failure is final: recorded as failed, its message kept among the
// dead letters if there are any, and acked; unless the handler asks for another attempt, see
// [jobs.Failure]: then the job waits in the queue. A failure of the
// infrastructure is not the job's fault: nothing is recorded, the lease is
// handed back, and the job runs again. See [jobs.ErrUnavailable].
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Source hands out leases on jobs. Its methods may be called concurrently.
type Source interface {
	// Lease waits for a job and returns a lease on it; on a message that names
	// no job, one without a job id. It returns the cause of
	// ctx when ctx ends first, an error that wraps [ErrRefused] when asking
	// again will not help, and any other error when it may.
	Lease(ctx context.Context) (jobs.Lease, error)
	// Extend makes leases last ttl from now. It returns by lease id those that
	// are lost, and an error when the source could not be asked; then the
	// leases not named as lost are unchanged.
	Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (lost map[string]error, err error)
	// Ack ends a lease: its job is never handed out again. A lease that is
	// lost is no error.
	Ack(ctx context.Context, lease jobs.Lease) error
	// Nack ends a lease: its job may be handed out again after delay, or sooner where the
	// source cannot keep it for so long.
	Nack(ctx context.Context, lease jobs.Lease, delay time.Duration) error
}

// ErrRefused marks an error of a [Source] that a retry cannot fix: no such queue, no
// permission.
var ErrRefused = errors.New("refused by the source")

// Status is where the life of a job is recorded, and where workers agree on who
// runs it. Its methods are those of [status.Store], where they are described.
//
// [status.Store]: https://pkg.go.dev/github.com/batchfleet/batchfleet/status#Store
type Status interface {
	Claim(ctx context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error)
	Report(ctx context.Context, c jobs.Claim, hold time.Duration, p *jobs.Progress, lines jobs.Lines) error
	Finish(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error)
	Retry(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error)
	Release(ctx context.Context, c jobs.Claim, message string) error
}

// LastReporter is a [Status] that can record an outcome together with what the job has reported and
// no report has brought yet. A job that ends before its report is sent costs one call less: Report
// may then return [batch.ErrNotSent], as its context is one of [batch.Until].
type LastReporter interface {
	// FinishLast is Finish. Before that it does what Report does with p and lines.
	FinishLast(ctx context.Context, c jobs.Claim, o jobs.Outcome, p *jobs.Progress, lines jobs.Lines) (jobs.State, error)
}

// Handler runs the jobs of one kind. Run may be called concurrently, and again
// for a job it has worked on before.
type Handler interface {
	// Run does the job and returns its result, which must be stored durably
	// by then. It calls report as often as it likes: report never blocks. It
	// stops soon after ctx ends. An error that wraps [jobs.ErrUnavailable] means
	// the job should run again; any other is the job's own, and final unless it is a
	// [jobs.Failure] that says otherwise.
	Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error)
	// Earlier returns the result of an earlier attempt that stored its result
	// but could not record its outcome; false if there is none.
	Earlier(ctx context.Context, job jobs.Job) (jobs.Result, bool, error)
}

// Discarder is a [Handler] that stores things before a job has ended.
type Discarder interface {
	// Discard deletes everything that the attempts at a job have stored: it has ended
	// without success, and not under this worker alone.
	Discard(ctx context.Context, job jobs.Job) error
}

// Worker leases and runs jobs. Set the exported fields before Run; every
// duration that is zero gets the default its comment names.
type Worker struct {
	Source   Source
	Status   Status
	Handlers map[jobs.Kind]Handler // until Replace
	// Claims are searched for those of silent workers, if the Source is a [HandBacker].
	// Nil where that is done elsewhere.
	Claims Claims
	// Registry is told regularly that the worker lives, and may be a [Commander]. Nil for none.
	Registry Registry
	Log      *slog.Logger
	Metrics  *Metrics
	// DeadLetters takes the messages of failed jobs, and those that name no job,
	// before they are acked. Nil to keep none.
	DeadLetters DeadLetters

	// Checks are asked before jobs are leased, and again after trouble, until
	// all of them return nil: a job is not taken that could not be recorded. One may
	// return [ErrDraining].
	Checks map[string]func(context.Context) error

	// Pools are the slots that jobs run in. Nil for one slot for all kinds.
	Pools []Pool

	LeaseTTL         time.Duration // 600 s
	ExtendEvery      time.Duration // LeaseTTL/2
	Drain            time.Duration // what a stopping worker gives its jobs to finish; 8 s, as Cloud Run gives 10
	JobTimeout       time.Duration // 30 min
	StallTimeout     time.Duration // a job that reports nothing for so long is failed; 10 min
	SettleTimeout    time.Duration // how long to try to record an outcome; 10 min
	StartTimeout     time.Duration // how long a refusal by the source is tried again; 2 min
	KindTimeout      time.Duration // how long a job waits for a worker that has its kind, since it was first heard of; 24 h
	ProgressInterval time.Duration // between progress writes of one job; 100 ms
	IdleCheck        time.Duration // between checks while all is well; 5 s

	// A worker stops by itself, as if its context had ended, once all its slots
	// have waited for a job for IdleExit and none has come, and when what is left of
	// MaxRuntime is no more than a job may need; see [RuntimeMargin]. Never when 0.
	IdleExit   time.Duration
	MaxRuntime time.Duration // more than LongestJob and RuntimeMargin

	// ForceStop, when closed, ends the drain time of a worker that is stopping. Nil
	// for never.
	ForceStop <-chan struct{}

	handlers   atomic.Pointer[handlers]
	ordered    atomic.Pointer[orders] // nil until the first report of the worker was answered
	held       *held
	unreleased *unreleased
	pools      *pools
	readiness  *readiness
	outage     *outage
	idle       *idle
	shown      atomic.Pointer[readiness] // readiness once it is there: Ready may be called before Init
}

// Init gives fields that are zero their defaults. Run does so unless it was called before.
func (w *Worker) Init() {
	if len(w.Pools) == 0 {
		w.Pools = []Pool{{Slots: 1}}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&w.LeaseTTL, 600 * time.Second},
		{&w.Drain, 8 * time.Second},
		{&w.JobTimeout, 30 * time.Minute},
		{&w.StallTimeout, 10 * time.Minute},
		{&w.SettleTimeout, 10 * time.Minute},
		{&w.StartTimeout, 2 * time.Minute},
		{&w.KindTimeout, 24 * time.Hour},
		{&w.ProgressInterval, 100 * time.Millisecond},
		{&w.IdleCheck, 5 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if w.ExtendEvery == 0 {
		w.ExtendEvery = w.LeaseTTL / 2
	}
	if w.Metrics == nil {
		w.Metrics = NewMetrics("unknown")
	}
	w.held = newHeld(w.Source, w.LeaseTTL, w.ExtendEvery, w.Log, w.Metrics)
	w.unreleased = newUnreleased(w.Status, w.Log)
	w.readiness = newReadiness(w.checks(), w.IdleCheck, w.Log, w.Metrics)
	w.outage = newOutage(w.Source, w.readiness, w.Log)
	w.shown.Store(w.readiness)
}

// Ready reports nil when the worker takes jobs, or why it does not: what its checks say, or that a
// [Prober] does not answer. It may be
// called at any time, also before Run and beside it.
func (w *Worker) Ready() error {
	if r := w.shown.Load(); r != nil {
		return r.state()
	}
	return errStarting
}

// Run leases and runs jobs until ctx ends, the source refuses for good, or it is
// time to stop. Then it gives the jobs in hand the drain time to finish, or what
// is left of MaxRuntime, and hands back those that do not. It returns nil unless
// the source refused or Pools make no sense, and owns every goroutine it starts.
func (w *Worker) Run(ctx context.Context) error {
	if w.held == nil {
		w.Init()
	}
	var err error
	if w.pools, err = newPools(w); err != nil {
		return err
	}
	// Leasing stops with ctx, work does not: it has the drain time to finish.
	began := time.Now()
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	leasing, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	w.idle = &idle{slots: w.pools.slots(), after: w.IdleExit, stop: stop}
	var background, slots sync.WaitGroup
	if w.MaxRuntime > 0 {
		background.Go(func() { w.leaveInTime(leasing, began, stop) })
	}
	background.Go(func() { w.held.extend(work) })
	background.Go(func() { w.readiness.watch(leasing) })
	background.Go(func() { w.outage.watch(leasing) })
	if source, ok := w.Source.(HandBacker); ok && w.Claims != nil {
		look := &watch{claims: w.Claims, source: source, log: w.Log, metrics: w.Metrics}
		background.Go(func() { look.run(work) })
	}
	background.Go(func() { w.unreleased.run(work) })
	if w.Registry != nil {
		background.Go(func() { w.pulses(leasing, work) })
	}

	var mu sync.Mutex
	var failed error
	for _, p := range w.pools.all {
		for range p.slots {
			slots.Go(func() {
				if err := w.serve(leasing, work, p); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					stop(err) // the other slots would be refused as well
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { slots.Wait(); close(done) }()
	select {
	case <-leasing.Done():
	case <-done:
	}
	w.readiness.stop()
	drain := w.drainTime(ctx, context.Cause(leasing), began, done)
	w.logDraining(ctx, drain)
	overdue := time.AfterFunc(drain, func() {
		abort(fmt.Errorf("%w: drain time of %s is over", jobs.ErrDrained, drain))
	})
	select {
	case <-done:
	case <-w.ForceStop:
		abort(fmt.Errorf("%w: forced stop requested", jobs.ErrDrained))
		<-done
	}
	w.unreleased.wait(work, w.ForceStop)
	overdue.Stop()
	abort(nil) // the extender goes last: draining jobs still need their leases
	stop(nil)
	background.Wait()
	return failed
}
