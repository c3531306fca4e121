package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// RuntimeMargin is what a job may need beyond its time limit: 30 s until a
// handler that does not stop is abandoned, and the time to record the outcome. A
// worker takes no job when less than LongestJob and RuntimeMargin is left of its
// MaxRuntime.
const RuntimeMargin = time.Minute

// handBackMargin is how long before the end of MaxRuntime a job that is still in hand
// is given up: time to stop it and to hand it back.
const handBackMargin = 5 * time.Second

// Why a worker stops by itself.
var (
	errIdle    = errors.New("no job has come")
	errRuntime = errors.New("the rest of MAX_RUNTIME is kept for the jobs in hand")
)

// idle ends the leasing when all slots have waited for a job for long enough. A slot
// that runs a job does not wait, nor one that waits for an error to pass or for the
// worker to be ready, so a worker in trouble does not stop as if it were idle.
type idle struct {
	slots int
	after time.Duration // never when 0
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	waiting int
	ends    time.Time   // when the worker has been idle for long enough; zero for not yet idle
	timer   *time.Timer // runs while all slots wait
}

// begin records that a slot waits for a job, end that it no longer does.
func (i *idle) begin() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waiting++
	if i.waiting < i.slots || i.after == 0 {
		return
	}
	if i.ends.IsZero() {
		i.ends = time.Now().Add(i.after)
	}
	i.timer = time.AfterFunc(time.Until(i.ends), func() { i.stop(fmt.Errorf("%w for %s", errIdle, i.after)) })
}

// busy records that a slot has a job, or is in trouble: the idle time begins again. It does not
// for a job that was left to other workers.
func (i *idle) busy() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ends = time.Time{}
}

func (i *idle) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waiting--
	if i.timer != nil {
		// If it has fired just now, leasing ends anyway; a job leased at that moment
		// is handed back.
		i.timer.Stop()
		i.timer = nil
	}
}

// logDraining logs what a stopping worker waits for, if it has jobs in hand.
func (w *Worker) logDraining(ctx context.Context, drain time.Duration) {
	n := w.held.count()
	if n == 0 {
		return
	}
	text := fmt.Sprintf("stopping: jobs in hand have %s to finish", drain.Round(time.Millisecond))
	if w.ForceStop != nil && ctx.Err() != nil {
		text += "; another signal hands them back at once"
	}
	w.Log.InfoContext(ctx, text, "jobs", n)
}

// drainTime returns how long the jobs in hand may still take, and says why if the
// worker stops by itself. When that is for MaxRuntime, it first waits: until
// done is closed, ctx ends, or the time is over.
func (w *Worker) drainTime(ctx context.Context, why error, began time.Time, done <-chan struct{}) (drain time.Duration) {
	if errors.Is(why, errIdle) || errors.Is(why, errRuntime) {
		w.Log.InfoContext(ctx, "worker takes no more jobs and stops", "why", why, "after", time.Since(began))
	}
	if !errors.Is(why, errRuntime) {
		return w.Drain
	}
	end := began.Add(w.MaxRuntime - handBackMargin)
	last := time.NewTimer(time.Until(end))
	defer last.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-last.C:
	}
	return max(0, min(w.Drain, time.Until(end)))
}
