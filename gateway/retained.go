package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// retain turns a lease's entry into a note that its handler has files of the job. They
// make the next attempt shorter if the job comes back to this machine; they are deleted
// after keepFor.
func (a *Agent) retain(ctx context.Context, e entry) error {
	err := a.storeResult(ctx, e)
	if a.Forget == nil {
		a.outbox.Remove(e.file())
	} else {
		e.State, e.EndedAt, e.Object, e.Text, e.Failed = stepRetained, time.Now().UTC(), "", "", nil
		err = errors.Join(err, a.putEntry(e))
	}
	a.mu.Lock()
	a.drop(e.LeaseID)
	if a.Forget != nil {
		a.retained = append(a.retained, e)
	}
	a.mu.Unlock()
	a.dropOld(ctx)
	return err
}

// storeResult puts a result that is only in its entry where the handler looks for it when the job comes back.
func (a *Agent) storeResult(ctx context.Context, e entry) error {
	if e.Text == "" || a.Forget == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	return a.Store.Put(ctx, e.Object, strings.NewReader(e.Text))
}

// forget deletes the handler's files of a job, unless another lease on the job is held.
// It does not try again.
func (a *Agent) forget(ctx context.Context, job jobs.ID) {
	if a.Forget == nil || a.holds(job) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	if err := a.Forget(ctx, job); err != nil {
		a.Log.WarnContext(ctx, "cannot delete the files of a job", "job", job, "err", err)
	}
}

const forgetTimeout = 30 * time.Second

func (a *Agent) holds(job jobs.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.leases {
		if h.JobID == job {
			return true
		}
	}
	return false
}

// isNew reports whether this worker has nothing of earlier attempts at a job.
func (a *Agent) isNew(job jobs.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.leases {
		if h.JobID == job && !h.clean {
			return false
		}
	}
	return true
}

// maxRetained is of how many jobs, which may come back, the files are kept.
const maxRetained = 1000

// dropOld deletes the files of jobs that have not come back, and the notes about them.
func (a *Agent) dropOld(ctx context.Context) {
	old := a.takeRetained(func(e entry, taken int) bool {
		return len(a.retained)-taken > maxRetained || time.Since(e.EndedAt) > keepFor
	})
	for _, e := range old {
		a.Log.InfoContext(ctx, "deleting the files of a job that has not come back", "job", e.JobID)
		a.forget(ctx, e.JobID)
		a.outbox.Remove(e.file())
	}
}

// dropRetained deletes the notes about a job that has come back: its files now belong to
// the new lease. It reports whether there were any.
func (a *Agent) dropRetained(job jobs.ID) bool {
	notes := a.takeRetained(func(e entry, _ int) bool { return e.JobID == job })
	for _, e := range notes {
		a.outbox.Remove(e.file())
	}
	return len(notes) > 0
}

// takeRetained takes the notes out of a.retained for which drop is true, which is told how
// many were taken before, and called with a.mu held.
func (a *Agent) takeRetained(drop func(e entry, taken int) bool) (taken []entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retained = slices.DeleteFunc(a.retained, func(e entry) bool {
		if !drop(e, len(taken)) {
			return false
		}
		taken = append(taken, e)
		return true
	})
	return taken
}

// dropOldEvery calls dropOld every hour, until ctx ends.
func (a *Agent) dropOldEvery(ctx context.Context) {
	for {
		a.dropOld(ctx)
		if jobs.Sleep(ctx, dropEvery) != nil {
			return
		}
	}
}
