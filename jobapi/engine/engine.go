package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// Engine runs the jobs of one scope and keeps them in memory. It implements
// [jobapi.Runner], [jobapi.Notifier], [jobapi.Feed], [jobapi.Counter], [jobapi.Explainer] and [jobapi.Catalog]. Its fields are set
// before its first use; its methods may be called concurrently.
type Engine struct {
	Scope     string      // "system"; the first part of the jobs' types
	Supported []Operation // what can be run
	Limits    Limits
	Logger    *slog.Logger // mistakes of the program, and jobs that a stop has canceled; nil for none
	Logs      *LogBudget   // shared by engines; nil for one of its own
	Metrics   *Metrics     // shared by engines; nil for none

	once    sync.Once
	changes jobapi.Changes
	tally   jobapi.Tally
	now     func() time.Time // what jobs show; wallClock but in tests

	mu      sync.Mutex
	ids     ids
	all     []*job // by id, and so by age
	byID    map[string]*job
	waiting []*job // queued, the oldest first
	alarm   *time.Timer
	running []*job // whose goroutine has not returned
	ended   []*job // whose goroutine has, the first to end first
	kept    int    // bytes of their requests, results and errors
	closed  bool
	free    sync.Cond // a running job has returned, or the engine is to stop
}

// Limits say how many jobs an engine takes. Zeros stand for the defaults.
type Limits struct {
	// An exclusive engine runs one job at a time, and refuses others with 409 CONFLICT and
	// the id of that one. A canceled job counts until its step has returned. Engines that
	// are not exclusive refuse with 429 RATE_LIMITED.
	Exclusive  bool
	MaxRunning int           // 4, of an exclusive engine always 1
	MaxLoad    int           // of them, those of operations with Load; 1
	MaxQueued  int           // further ones that wait for their start; 0 for none
	Retain     int           // ended jobs that are kept; 1000
	Timeout    time.Duration // of jobs whose request does not say; MaxTimeout
}

// maxKept is how many bytes the requests, results and errors of ended jobs may have
// together, whatever Retain says.
const maxKept = 64 << 20

// stopTime is how long Close waits for steps that have been told to stop: a little
// less than the 10 s that Docker gives a server.
const stopTime = 9 * time.Second

func (e *Engine) prepare() {
	l := &e.Limits
	if l.Exclusive {
		l.MaxRunning, l.MaxQueued = 1, 0
	}
	l.MaxRunning = cmp.Or(l.MaxRunning, 4)
	l.MaxLoad = cmp.Or(l.MaxLoad, 1)
	l.Retain = cmp.Or(l.Retain, 1000)
	l.Timeout = min(cmp.Or(l.Timeout, jobapi.MaxTimeout), jobapi.MaxTimeout)
	if e.Logger == nil {
		e.Logger = slog.New(slog.DiscardHandler)
	}
	if e.Logs == nil {
		e.Logs = &LogBudget{}
	}
	if e.Metrics == nil {
		e.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if e.now == nil {
		e.now = wallClock
	}
	e.byID = map[string]*job{}
	e.free.L = &e.mu
	e.Metrics.know(e)
}

// wallClock returns the time as others see it. Times of time.Now are compared by a
// clock that is never set back, which says nothing of what they show.
func wallClock() time.Time { return time.Now().Round(0) }

func (e *Engine) lock() {
	e.once.Do(e.prepare)
	e.mu.Lock()
}

func (e *Engine) operation(name string) (*Operation, error) {
	for i := range e.Supported {
		if e.Supported[i].Name == name {
			return &e.Supported[i], nil
		}
	}
	return nil, &jobapi.Refusal{
		Status: http.StatusNotFound, Code: jobapi.CodeNotFound,
		Message: fmt.Sprintf("Scope %s has no operation %.40q.", e.Scope, name),
	}
}

// Create implements [jobapi.Runner]. The request is the engine's from then on. The
// job is returned as it was made, queued, though it may run by now.
func (e *Engine) Create(ctx context.Context, operation string, r jobapi.Request) (jobapi.Job, error) {
	e.once.Do(e.prepare)
	op, err := e.operation(operation)
	if err != nil {
		return jobapi.Job{}, err
	}
	j, err := e.newJob(ctx, op, r)
	if err != nil {
		return jobapi.Job{}, err
	}
	e.lock()
	defer e.mu.Unlock()
	if err := e.refuse(op); err != nil {
		return jobapi.Job{}, err
	}
	if j.id, j.created, err = e.ids.next(e.now()); err != nil {
		return jobapi.Job{}, fmt.Errorf("create job: %w", err)
	}
	j.shown, j.due = j.created, time.Now().Add(j.timeout)
	j.log = newLog(j.id, e.Logs, e.Metrics.lost(e.Scope))
	e.all = append(e.all, j)
	e.byID[j.id] = j
	e.waiting = append(e.waiting, j)
	made := j.snapshot(e.Scope)
	e.tally.Move(e.now(), op.Name, 0, jobs.Queued)
	e.changes.Add(j.id)
	e.dispatch()
	return made, nil
}

// newJob returns a job that is not yet known to anybody.
func (e *Engine) newJob(ctx context.Context, op *Operation, r jobapi.Request) (*job, error) {
	j := &job{typ: e.Scope + "." + op.Name, op: op, status: jobs.Queued, timeout: e.Limits.Timeout}
	if ms := r.Common().TimeoutMs; ms != nil {
		j.timeout = time.Duration(*ms) * time.Millisecond
	}
	err := e.recoverPanics("create job of "+op.Name, func() error {
		request := r.(Request) // as NewRequest has made it
		echo, err := json.Marshal(request.Echo())
		if err != nil {
			return err
		}
		j.request = redact.JSON(echo)
		j.work = request.Steps()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("create job of %s: %w", op.Name, err)
	}
	j.steps = make([]jobapi.Step, len(j.work))
	for i, s := range j.work {
		j.steps[i] = jobapi.Step{Name: s.Name, Status: jobapi.Pending}
	}
	j.ctx, j.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return j, nil
}

// refuse returns why a further job of op cannot be taken now, or nil.
func (e *Engine) refuse(op *Operation) error {
	switch {
	case e.closed:
		return &jobapi.Refusal{
			Status: http.StatusServiceUnavailable, Code: jobapi.CodeUnavailable,
			Message: "This server is stopping.",
		}
	case e.Limits.Exclusive && len(e.running) > 0:
		return e.conflict(e.running[0])
	case e.fits(op) || len(e.waiting) < e.Limits.MaxQueued:
		return nil
	}
	e.Metrics.refused.WithLabelValues(e.Scope, jobapi.CodeRateLimited).Inc()
	r := &jobapi.Refusal{
		Status: http.StatusTooManyRequests, Code: jobapi.CodeRateLimited,
		Message: fmt.Sprintf("%s of scope %s %s in hand already; no more are allowed at a time.", jobs.Count(len(e.running), "job"), e.Scope, jobs.Are(len(e.running))),
	}
	if load := e.loads(); len(e.running) < e.Limits.MaxRunning {
		r.Message = fmt.Sprintf("Job %s puts load on the fleet already; no more than %s may do so at a time.", load[0].id, jobs.Count(e.Limits.MaxLoad, "job"))
		r.Details = map[string]any{"jobId": load[0].id}
	}
	return r
}

func (e *Engine) conflict(j *job) error {
	e.Metrics.refused.WithLabelValues(e.Scope, jobapi.CodeConflict).Inc()
	r := &jobapi.Refusal{
		Status: http.StatusConflict, Code: jobapi.CodeConflict,
		Message: fmt.Sprintf("Job %s runs already; scope %s runs one at a time.", j.id, e.Scope),
		Details: map[string]any{"jobId": j.id},
	}
	if j.status.Terminal() {
		r.Message = fmt.Sprintf("Job %s has ended, but its last call has not returned; scope %s runs one at a time.", j.id, e.Scope)
		r.Details["stopping"] = true
	}
	return r
}

// fits reports whether a job of op could start now.
func (e *Engine) fits(op *Operation) bool {
	return len(e.running) < e.Limits.MaxRunning && (!op.Load || len(e.loads()) < e.Limits.MaxLoad)
}

// loads returns the running jobs that put load on the fleet, the oldest first.
func (e *Engine) loads() (load []*job) {
	for _, j := range e.running {
		if j.op.Load {
			load = append(load, j)
		}
	}
	return load
}

// dispatch starts the waiting jobs that fit, the oldest first.
func (e *Engine) dispatch() {
	for i := 0; i < len(e.waiting) && len(e.running) < e.Limits.MaxRunning && !e.closed; {
		j := e.waiting[i]
		if !e.fits(j.op) {
			i++
			continue
		}
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.start(j)
	}
	e.setAlarm()
}

// setAlarm has the timer go off when the first of the waiting jobs is out of time.
func (e *Engine) setAlarm() {
	if len(e.waiting) == 0 {
		if e.alarm != nil {
			e.alarm.Stop()
		}
		return
	}
	left := jobapi.MaxTimeout
	for _, j := range e.waiting {
		left = min(left, time.Until(j.due))
	}
	if e.alarm == nil {
		e.alarm = time.AfterFunc(left, e.expireWaiting)
		return
	}
	e.alarm.Reset(left)
}

func (e *Engine) expireWaiting() {
	e.lock()
	defer e.mu.Unlock()
	for _, j := range slices.Clone(e.waiting) {
		if j.status == jobs.Queued && time.Until(j.due) <= 0 {
			e.expire(j)
		}
	}
	e.setAlarm()
}

// leave takes a job that has ended out of what waits or runs, when nothing of it
// goes on. It does so once for each.
func (e *Engine) leave(j *job) {
	if j.ctx == nil {
		return
	}
	if i := slices.Index(e.running, j); i >= 0 {
		e.running = slices.Delete(e.running, i, i+1)
		e.free.Broadcast()
	}
	j.work, j.ctx, j.cancel = nil, nil, nil // a thousand of them are kept
	e.ended = append(e.ended, j)
	e.kept += j.bytes()
	for len(e.ended) > e.Limits.Retain || e.kept > maxKept && len(e.ended) > 1 {
		e.forget(e.ended[0])
		e.ended = slices.Delete(e.ended, 0, 1)
	}
	e.dispatch()
	e.changes.Wake()
}

func (e *Engine) forget(j *job) {
	e.tally.Move(time.Time{}, j.op.Name, j.status, 0)
	e.kept -= j.bytes()
	delete(e.byID, j.id)
	if i, ok := e.find(j.id); ok {
		e.all = slices.Delete(e.all, i, i+1)
	}
	e.Logs.forget(j.log)
}

// Close cancels all jobs and waits until their steps have returned: until ctx ends,
// and 9 s at most. No job can be made from then on; those that were can be read.
func (e *Engine) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	e.lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, j := range slices.Concat(e.waiting, e.running) {
		if e.stop(j, jobs.ErrDrained) { // no client can read the job once the server has stopped
			e.Logger.InfoContext(ctx, "job canceled, for the server stops", "id", j.id, "type", j.typ, "reached", j.reached())
		}
	}
	defer context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.free.Broadcast()
	})()
	for len(e.running) > 0 && ctx.Err() == nil {
		e.free.Wait()
	}
	if n := len(e.running); n > 0 {
		return fmt.Errorf("stop jobs of scope %s: %d still run: %w", e.Scope, n, context.Cause(ctx))
	}
	return nil
}

// Cancel implements [jobapi.Jobs]. Of a job that has ended already it returns how,
// beside the error.
func (e *Engine) Cancel(_ context.Context, id string) (jobapi.Job, error) {
	e.lock()
	defer e.mu.Unlock()
	j := e.byID[id]
	if j == nil {
		return jobapi.Job{}, jobapi.NoJob(id)
	}
	if !e.stop(j, jobs.ErrCanceled) {
		return j.snapshot(e.Scope), fmt.Errorf("cancel job %s, which is %s: %w", j.id, j.status, jobapi.ErrEnded)
	}
	return j.snapshot(e.Scope), nil
}

// Changed implements [jobapi.Notifier].
func (e *Engine) Changed() <-chan struct{} { return e.changes.Changed() }

// Changes implements [jobapi.Feed].
func (e *Engine) Changes(ctx context.Context, after string) (ids []string, next string, lost bool, err error) {
	return e.changes.Changes(ctx, after)
}
