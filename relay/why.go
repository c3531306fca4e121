package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// Why implements [jobapi.Explainer].
func (j Jobs) Why(ctx context.Context, id string) ([]jobapi.Reason, error) {
	e, err := j.Relay.tasks.lock(jobs.ID(id))
	if err != nil {
		return nil, err
	}
	t, next := e.task.Load(), e.claim.next
	e.mu.Unlock()
	switch t.State {
	case Queued:
		return j.Relay.whyWaits(ctx, t, next), nil
	case Running:
		message := "The relay runs its program."
		if t.CancelRequested {
			message = "The relay stops its program."
		}
		return []jobapi.Reason{{Code: jobapi.WhyLeased, Message: message, Since: jobapi.At(t.StartedAt)}}, nil
	case Uploading:
		return []jobapi.Reason{whyUploads(t)}, nil
	case Succeeded, Failed, Canceled:
	}
	var failed *jobapi.Error
	if t.Error != nil {
		failed = &jobapi.Error{Code: jobapi.ShownCode(t.Error.Code), Message: t.Error.Message}
	}
	return []jobapi.Reason{jobapi.Ended(t.State.job(), failed, t.FinishedAt)}, nil
}

// whyUploads says how the upload of a task stands. One that has a message has failed, and is tried again.
func whyUploads(t *Task) jobapi.Reason {
	r := jobapi.Reason{Code: jobapi.WhyLeased, Message: "Its program has succeeded, and the relay sends its files to the orchestrator.", Since: jobapi.At(t.UploadingAt)}
	if t.Message != "" {
		r.Code, r.Until = jobapi.WhyDelayed, jobapi.At(t.UploadingAt.Add(uploadFor))
		r.Message = "Its program has succeeded; its files are not delivered yet, and that is tried again, for a day at most: " + jobapi.ShownText(t.Message, maxReason)
	}
	return r
}

// whyWaits says why a queued task is not started; next is when its next attempt may begin.
func (r *Relay) whyWaits(ctx context.Context, t *Task, next time.Time) (all []jobapi.Reason) {
	add := func(code, message string) *jobapi.Reason {
		all = append(all, jobapi.Reason{Code: code, Message: message, Since: jobapi.At(t.CreatedAt)})
		return &all[len(all)-1]
	}
	k := r.Kinds().Get(t.Kind)
	since, isPaused := r.paused.since(t.Kind)
	switch until := r.pauses.until(t.Kind); {
	case k == nil:
		add(jobapi.WhyNoWorker, "Its kind is no longer in the kinds file: put it back, and send the relay SIGHUP.")
	case !r.runs(k):
		add(jobapi.WhyNoWorker, "Its kind needs a GPU, and this relay has none.")
	case isPaused:
		add(jobapi.WhyPaused, "Its kind is paused: resume it.").Since = jobapi.At(since)
	case until.After(time.Now()):
		add(jobapi.WhyPaused, "Tasks of its kind have failed one after the other, and the others wait: look at the log of the last one.").Until = jobapi.At(until)
	}
	if err := r.Check(ctx); err != nil {
		add(jobapi.WhyDraining, "The disk of the relay is too full to start a task: free some space. "+jobapi.ShownText(err.Error(), maxReason))
	}
	if next.After(time.Now()) {
		add(jobapi.WhyDelayed, "It has failed and is tried again: "+jobapi.ShownText(t.Message, maxReason)).Until = jobapi.At(next)
	}
	ahead := 0
	if k != nil {
		ahead = r.tasks.ahead(t, r.shares(k))
	}
	if len(all) == 0 && ahead == 0 {
		if n := r.tasks.count(Running); n > 0 {
			add(jobapi.WhyNoSlot, fmt.Sprintf("It is next: %s %s, and there is no free slot or GPU for another one of its kind.", jobs.Count(n, "task"), runOrRuns(n)))
		}
	}
	what := "It is next."
	if ahead > 0 {
		what = fmt.Sprintf("%s %s queued before it, by priority and age.", jobs.Count(ahead, "task"), jobs.Are(ahead))
	}
	add(jobapi.WhyQueued, what).Ahead = &ahead
	return all
}

func runOrRuns(n int) string {
	if n == 1 {
		return "runs"
	}
	return "run"
}

// shares returns which kinds take their slots or GPUs from where k does, and can be started now.
func (r *Relay) shares(k *kinds.Kind) func(jobs.Kind) bool {
	return func(name jobs.Kind) bool {
		other := r.Kinds().Get(name)
		switch {
		case name == k.Name:
			return true
		case other == nil || k.Slots > 0 || other.Slots > 0 || (k.GPUs > 0) != (other.GPUs > 0):
			return false
		}
		return !r.queue.paused(name)
	}
}
