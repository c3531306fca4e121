package provider

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

var _ jobapi.Explainer = (*Fleet)(nil)

// Why implements [jobapi.Explainer].
func (f *Fleet) Why(ctx context.Context, id string) ([]jobapi.Reason, error) {
	job, err := jobs.ParseID(id)
	if err != nil {
		return nil, jobapi.NoJob(id)
	}
	got, err := f.Status.Situation(ctx, job)
	if err != nil {
		return nil, err
	}
	s := situation{got}
	switch got.State() {
	case jobs.Queued:
		return s.whyQueued(), nil
	case jobs.Running:
		return []jobapi.Reason{s.whyRunning()}, nil
	default:
		finished := jobapi.At(got.Detail.Finished)
		return []jobapi.Reason{{Code: jobapi.WhyEnded, Message: fmt.Sprintf("The job has ended: it is %s", got.State()), Worker: jobapi.ShownText(got.Detail.Worker, maxName), Since: finished}}, nil
	}
}

// situation is what reasons are made of.
type situation struct{ status.Situation }

// missingAfter is how long a queued job may give no sign of life while nothing keeps it from starting.
const missingAfter = 10 * time.Minute

// whyRunning tells who runs a job.
func (s situation) whyRunning() jobapi.Reason {
	worker := jobapi.ShownText(s.Detail.Worker, maxName)
	r := jobapi.Reason{Code: jobapi.WhyLeased, Worker: worker, Since: jobapi.At(s.Detail.Started), Until: jobapi.At(s.Until)}
	over := !s.Until.After(s.Now)
	if !over && (s.Heard.IsZero() || s.Now.Sub(s.Heard) <= status.SilentAfter) {
		r.Message = fmt.Sprintf("Worker %s runs it: attempt %d", worker, max(1, s.Detail.Attempt))
		return r
	}
	r.Code, r.Since = jobapi.WhySilent, jobapi.At(s.Heard)
	r.Message = fmt.Sprintf("Nothing was heard of worker %s for some time: unless it comes back, the queue hands the job out again within minutes", worker)
	return r
}

// whyQueued tells what a queued job waits for, what to act on first.
func (s situation) whyQueued() (all []jobapi.Reason) {
	kind := shownKind(s.Detail.Kind)
	takers := s.takers()
	free := s.free(takers)
	add := func(r jobapi.Reason, format string, args ...any) {
		r.Message = fmt.Sprintf(format, args...)
		all = append(all, r)
	}
	if !s.Paused.IsZero() {
		add(jobapi.Reason{Code: jobapi.WhyPaused, Since: jobapi.At(s.Paused)}, "Kind %s is paused: resume it to have its jobs run", kind)
	}
	if !s.Draining.IsZero() {
		add(jobapi.Reason{Code: jobapi.WhyDraining, Since: jobapi.At(s.Draining)}, "The fleet is draining: no worker takes a job until it is started again (batchfleet run start)")
	}
	switch ready := slices.DeleteFunc(slices.Clone(takers), func(w status.Worker) bool { return w.Unready != "" }); {
	case len(takers) == 0:
		add(jobapi.Reason{Code: jobapi.WhyNoWorker}, "No live worker runs jobs of kind %s: start one", kind)
	case s.Draining.IsZero() && !slices.ContainsFunc(takers, func(w status.Worker) bool { return !w.Draining }):
		add(jobapi.Reason{Code: jobapi.WhyDraining, Since: jobapi.At(drainedSince(takers))}, "All workers of kind %s (%d) are draining, and take no jobs: resume one, or start another", kind, len(takers))
	case s.Draining.IsZero() && len(ready) == 0:
		w := takers[0]
		add(jobapi.Reason{Code: jobapi.WhyNoWorker, Worker: jobapi.ShownText(w.Name, maxName)}, "No worker of kind %s is ready: %s", kind, jobapi.ShownText(w.Unready, maxReason))
	case s.Draining.IsZero() && free == 0:
		add(jobapi.Reason{Code: jobapi.WhyNoSlot}, "No worker of kind %s has a free slot: it starts when a job ends, or another worker is started", kind)
	}
	if s.Detail.Next.After(s.Now) {
		delayed := jobapi.Reason{Code: jobapi.WhyDelayed, Until: jobapi.At(s.Detail.Next)}
		if s.Detail.Attempt == 0 {
			add(delayed, "It was submitted for later, and does not start before its time")
		} else {
			add(delayed, "It waits for its next attempt: %s", jobapi.ShownText(s.Message, 1<<10))
		}
	} else if len(all) == 0 && s.Ahead == 0 && s.Now.Sub(s.quiet()) > missingAfter {
		add(jobapi.Reason{Code: jobapi.WhyMessageMissing, Since: jobapi.At(s.quiet())}, "Slots are free, no job is before it, and no worker has got it: its message may be missing. Retry the job: that publishes its message again")
	}
	ahead := s.Ahead
	queued := jobapi.Reason{Code: jobapi.WhyQueued, Ahead: &ahead, Since: jobapi.At(s.Created)}
	if s.Ahead == 0 {
		add(queued, "It is queued: no job of its kind was created before it")
	} else {
		add(queued, "It is queued: %s of its kind were created before it", jobs.Count(s.Ahead, "job"))
	}
	return all
}

// drainedSince returns since when all of them are told to take no jobs; zero where one drains for another reason.
func drainedSince(takers []status.Worker) (since time.Time) {
	for _, w := range takers {
		if w.Drained.IsZero() {
			return time.Time{}
		}
		if w.Drained.After(since) {
			since = w.Drained
		}
	}
	return since
}

// quiet returns since when nothing has happened to the job. Its message may have been published again meanwhile.
func (s situation) quiet() time.Time {
	if s.Detail.Sent.After(s.Quiet) {
		return s.Detail.Sent
	}
	return s.Quiet
}

// takers returns the live workers that run jobs of its kind. Which those are of a job without a kind is the worker's to say.
func (s situation) takers() []status.Worker {
	return slices.DeleteFunc(slices.Clone(s.Workers), func(w status.Worker) bool {
		unknown := s.Detail.Kind == "" || s.Detail.Kind == status.UnknownKind
		return w.Silent > status.SilentAfter || !unknown && !slices.Contains(w.Kinds, s.Detail.Kind)
	})
}

// free returns how many slots are free of workers that take jobs.
func (situation) free(takers []status.Worker) (n int) {
	for _, w := range takers {
		if !w.Draining && w.Unready == "" {
			n += max(0, w.Slots-w.Jobs)
		}
	}
	return n
}
