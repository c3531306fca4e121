package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// keepLeft makes of a lease a note that its handler has files of the job. They
// make the next run of it shorter, should it come back to this machine; after
// keepAside they are deleted.
func (a *Agent) keepLeft(ctx context.Context, e entry) error {
	var err error
	if a.Forget == nil {
		err = a.outbox.remove(e)
	} else {
		e.State, e.EndedAt, e.Object, e.Failed = stepLeft, time.Now().UTC(), "", nil
		err = a.outbox.put(e)
	}
	a.mu.Lock()
	a.drop(e.LeaseID)
	if a.Forget != nil {
		a.left = append(a.left, e)
	}
	a.mu.Unlock()
	a.dropOld(ctx)
	return err
}

// forget deletes what the handler has of a job, unless another lease on the job
// is in hand. What cannot be deleted now is left to the handler's own care.
func (a *Agent) forget(ctx context.Context, job jobs.ID) {
	if a.Forget == nil || a.has(job) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	if err := a.Forget(ctx, job); err != nil {
		a.Log.WarnContext(ctx, "cannot delete the files of a job", "job", job, "err", err)
	}
}

const forgetTimeout = 30 * time.Second

func (a *Agent) has(job jobs.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.hands {
		if h.JobID == job {
			return true
		}
	}
	return false
}

// maxLeft is of how many jobs files are kept that may come back.
const maxLeft = 1000

// dropOld forgets jobs that have not come back.
func (a *Agent) dropOld(ctx context.Context) {
	a.mu.Lock()
	var old []entry
	excess := len(a.left) - maxLeft
	a.left = slices.DeleteFunc(a.left, func(e entry) bool {
		if excess <= 0 && time.Since(e.EndedAt) <= keepAside {
			return false
		}
		excess--
		old = append(old, e)
		return true
	})
	a.mu.Unlock()
	for _, e := range old {
		a.Log.InfoContext(ctx, "deleting the files of a job that has not come back", "job", e.JobID)
		a.forget(ctx, e.JobID)
		if err := a.outbox.remove(e); err != nil {
			a.Log.WarnContext(ctx, "cannot write state directory", "job", e.JobID, "err", err)
		}
	}
}

// dropLeft removes the notes about a job that has come back: from now on it is
// the new lease that says what is to be done with its files.
func (a *Agent) dropLeft(ctx context.Context, job jobs.ID) {
	a.mu.Lock()
	var back []entry
	a.left = slices.DeleteFunc(a.left, func(e entry) bool {
		if e.JobID != job {
			return false
		}
		back = append(back, e)
		return true
	})
	a.mu.Unlock()
	for _, e := range back {
		if err := a.outbox.remove(e); err != nil {
			a.Log.WarnContext(ctx, "cannot write state directory", "job", e.JobID, "err", err)
		}
	}
}

// sweep keeps the directory small, until ctx ends.
func (a *Agent) sweep(ctx context.Context) {
	for {
		a.outbox.sweep(ctx)
		a.dropOld(ctx)
		if jobs.Sleep(ctx, sweepEvery) != nil {
			return
		}
	}
}
