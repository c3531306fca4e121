package relay

import (
	"context"
	"time"
)

// maxCrashes is how many relays may die while they run a task: it may be what kills them.
const maxCrashes = 2

// recover brings a task that an earlier relay has left into a state that this one can go on from. The
// programs of that relay are gone: see command.Sweep.
func (ts *Tasks) recover(ctx context.Context, e *entry) error {
	t := e.task.Load()
	if t.State != Running {
		return nil
	}
	if err := ts.dir.empty(e.id); err != nil {
		return err
	}
	after, err := ts.update(e, func(t *Task) error {
		now := time.Now().UTC()
		t.Crashes++
		switch {
		case t.CancelRequested:
			return t.become(Canceled, now)
		case t.Crashes >= maxCrashes:
			t.Error = &Error{Code: codeInterrupted, Message: "the relay has died twice while this task was running"}
			return t.become(Failed, now)
		}
		t.tried("crashed", "the relay has died", now)
		t.Message = "the relay has died; the task runs once more"
		return t.become(Queued, now)
	})
	if err == nil {
		ts.log.WarnContext(ctx, "a task was running when the relay died", "task", e.id, "job_id", t.JobID, "kind", t.Kind, "attempt", t.Attempt, "now", after.State)
	}
	return err
}
