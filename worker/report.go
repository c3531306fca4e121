package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/jobs"
)

// reportEvery is the longest time between two reports of a running job. A report
// prolongs the claim, and its reply tells whether to go on, so a cancel is seen within
// this time. The promise is 2 s, also when one report is lost, or a report without
// progress gets no reply.
const reportEvery = time.Second

// reporter writes the progress of one job. The newest value wins, one write is
// in flight at a time, and the job never waits for it.
type reporter struct {
	*attempt
	stop  context.CancelCauseFunc // ends the handler
	began time.Time

	mu     sync.Mutex
	newest *jobs.Progress // not yet written
	lines  logLines
	last   jobs.Progress // newest ever, written or not
	moved  time.Time     // when the job last reported
	wake   chan struct{}
	now    bool // the newest value must not wait for the interval
}

// add records p and returns at once.
func (r *reporter) add(p jobs.Progress) {
	r.steps.step(p.Step)
	r.mu.Lock()
	if r.newest != nil {
		r.Metrics.progressSuppressed.Inc()
	}
	r.newest = &p
	// The first value and the last page are always shown.
	last := p.Total > 0 && p.Done >= p.Total
	if p.Message != "" && p.Message != r.last.Message && !p.Logged {
		r.lines.progress(p.Message, last)
	}
	r.now = r.now || last
	r.last, r.moved = p, time.Now()
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// log adds a line to the job's log and returns at once. It is written with the next
// report, for which it wakes nobody: lines cost Redis no more than their job does.
func (r *reporter) log(line string) {
	line = jobs.LogLine(line, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines.add(line)
	r.moved = time.Now()
}

// stalled returns for how long the job has reported nothing.
func (r *reporter) stalled() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.moved)
}

// storageHangs is how long a step that moves data may report nothing before the
// storage counts as hanging. A fetch reports as its data comes.
const storageHangs = time.Second

// tooSlow returns the error for a job that is stopped because of err: it ran or was
// silent for too long. It is not the job's fault if the storage hangs in a step that
// only moves data, or if Redis does not confirm the claim. A fetch that is slow but
// moves is the job's fault: it would be as slow elsewhere.
func (r *reporter) tooSlow(err error) error {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	switch {
	case (last.Step == "fetch" || last.Step == "store") && r.stalled() >= storageHangs:
		return fmt.Errorf("%w: in step %s: %s", jobs.ErrUnavailable, last.Step, err.Error())
	case r.confirmed.stale():
		silent := r.confirmed.since().Round(time.Second)
		return fmt.Errorf("%w: status store silent for %s: %s", jobs.ErrUnavailable, silent, err.Error())
	case last.Message != "":
		return fmt.Errorf("%w (last progress: %s)", err, last.Message)
	}
	return err
}

// run writes reports until done is closed. The writes end with ctx, and a report that has not been
// sent when done is closed is left to [reporter.end], where the outcome can bring it. Trouble with
// the status store does not stop the job: only the final outcome must be recorded.
func (r *reporter) run(ctx context.Context, done <-chan struct{}) {
	timer := time.NewTimer(reportEvery)
	defer timer.Stop()
	written := time.Now()
	sending := ctx
	if r.together() {
		sending = batch.Until(ctx, done)
	}
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		case <-r.wake:
			if wait := r.ProgressInterval - time.Since(written); wait > 0 && !r.isUrgent() {
				timer.Reset(min(wait, reportEvery))
				continue
			}
		}
		began := time.Now()
		p, lines := r.take(false)
		r.write(sending, p, lines)
		written = time.Now()
		timer.Reset(max(0, reportEvery-time.Since(began))) // a slow one delays the next no further
	}
}

// endTimeout bounds a last report of a worker that has run out of time. It is short: the
// job must still be handed back.
const endTimeout = time.Second / 2

// end writes what is still unwritten, also when the worker has no more time, but not when
// the lease is lost: then this log is no longer the attempt's. That is one report, and
// another before it if one has failed. The outcome of a job that has succeeded brings the
// last of them, where the status store can do that: what else a report asks, whether to stop, no longer matters.
func (r *reporter) end(ctx context.Context, succeeded bool) {
	if errors.Is(context.Cause(ctx), jobs.ErrDrained) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
	}
	for range 2 {
		p, lines := r.take(true)
		if succeeded && r.together() && !r.lines.waits() {
			r.progress, r.attempt.lines = p, lines
			return
		}
		if p == nil && len(lines.Text) == 0 || !r.write(ctx, p, lines) {
			return
		}
	}
}

// together reports whether an outcome can bring what no report has brought.
func (r *reporter) together() bool {
	_, ok := r.Status.(LastReporter)
	return ok
}

func (r *reporter) isUrgent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// take returns what is to be written now; at the end of the job that is everything.
func (r *reporter) take(end bool) (p *jobs.Progress, lines jobs.Lines) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p = r.newest
	r.newest, r.now = nil, false
	return p, r.lines.take(end)
}

// write reports whether that was written.
func (r *reporter) write(ctx context.Context, p *jobs.Progress, lines jobs.Lines) bool {
	limit := callTimeout
	if p == nil && len(lines.Text) == 0 {
		limit = reportEvery // if it fails nothing is lost: the next one repeats it
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := r.report(call, p, lines)
	if err == nil || errors.Is(err, jobs.ErrCanceled) {
		r.mu.Lock()
		r.lines.written()
		r.mu.Unlock()
		if p != nil {
			r.Metrics.progressWritten.Inc()
		}
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, batch.ErrNotSent): // the job has ended
		r.mu.Lock()
		r.newest = cmp.Or(r.newest, p)
		r.mu.Unlock()
	case errors.Is(err, jobs.ErrCanceled):
		r.stop(err)
		return true
	case errors.Is(err, jobs.ErrLeaseLost): // the attempt ends
	case ctx.Err() == nil:
		r.Metrics.statusRetries.Inc()
		r.Log.WarnContext(ctx, "cannot report progress, the job goes on", "job", r.claim.Job, "silent_for", r.confirmed.since(), "err", err)
	}
	return false
}

// report writes to the status store, which prolongs the claim. It ends the attempt if
// the claim is lost.
func (a *attempt) report(ctx context.Context, p *jobs.Progress, lines jobs.Lines) error {
	asked, hold := time.Now(), claimHold(a.left())
	err := a.Status.Report(ctx, a.claim, hold, p, lines)
	switch {
	case err == nil, errors.Is(err, jobs.ErrCanceled):
		a.confirmed.at(asked, hold)
	case errors.Is(err, jobs.ErrLeaseLost):
		a.lose(err)
	}
	return err
}

// claimHold is how long to claim a job whose lease lasts for left. A claim must not
// outlive the lease: when the worker dies, the next one that is handed the job
// would have to wait for the claim.
func claimHold(left time.Duration) time.Duration {
	return max(time.Millisecond, min(left, jobs.ClaimHold))
}
