package relay

import (
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

// hand is an attempt at a task that a test makes step by step, instead of a worker.
type hand struct {
	r      *rig
	lease  jobs.Lease
	claim  jobs.Claim
	lines  int
	result artifact.Result
}

// start leases the task that is next, and claims it.
func (r *rig) start() *hand {
	r.t.Helper()
	for {
		lease, err := r.queue.Lease(r.t.Context())
		if err != nil || lease.Invalid != nil {
			r.t.Fatal(err, lease.Invalid)
		}
		claim, err := r.status.Claim(r.t.Context(), lease.Job, time.Hour, jobs.Claim{})
		switch {
		case err == nil && claim.Verdict == jobs.Granted:
			return &hand{r: r, lease: lease, claim: claim}
		case err == nil && claim.Verdict == jobs.Ended: // it was canceled while it was queued
			err = r.queue.Ack(r.t.Context(), lease)
		default:
			r.t.Fatalf("claim: %+v, %v", claim, err)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func (h *hand) id() jobs.ID { return h.lease.Job.ID }

// report tells progress, and lines for the log.
func (h *hand) report(p jobs.Progress, lines ...string) {
	h.r.t.Helper()
	err := h.r.status.Report(h.r.t.Context(), h.claim, time.Hour, &p, jobs.Lines{Before: h.lines, Text: lines})
	if err != nil {
		h.r.t.Fatal(err)
	}
	h.lines += len(lines)
}

// make makes a file of the task.
func (h *hand) make(name, content string) {
	h.r.t.Helper()
	h.result.Artifacts = append(h.result.Artifacts, h.r.put(h.id(), name, content))
}

// succeed ends the attempt with the files that were made. Without an orchestrator the task has succeeded then.
func (h *hand) succeed() {
	h.r.t.Helper()
	h.r.finish(h.claim, h.result)
	h.ack()
	if h.r.Orchestrator == nil && h.r.task(h.id()).State == Uploading {
		h.r.uploaded(h.id())
	}
}

// uploaded ends the upload of a task, as no delivery does that runs beside a hand.
func (r *rig) uploaded(id jobs.ID) {
	r.t.Helper()
	if _, err := r.tasks.update(r.tasks.find(id), func(t *Task) error { return t.become(Succeeded, time.Now().UTC()) }); err != nil {
		r.t.Fatal(err)
	}
}

// sending makes it look as if a task were being uploaded just now.
func (r *rig) sending(id jobs.ID) {
	e := r.tasks.find(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel = func() {}
}

// end ends the attempt.
func (h *hand) end(o jobs.Outcome) {
	h.r.t.Helper()
	h.r.end(h.claim, o)
	h.ack()
}

func (h *hand) ack() {
	h.r.t.Helper()
	if err := h.r.queue.Ack(h.r.t.Context(), h.lease); err != nil {
		h.r.t.Fatal(err)
	}
}

// succeeded returns a task that has succeeded with these files, named in turn with their content.
func (r *rig) succeeded(files ...string) jobs.ID {
	r.t.Helper()
	r.create("")
	h := r.start()
	for i := 0; i+1 < len(files); i += 2 {
		h.make(files[i], files[i+1])
	}
	h.succeed()
	return h.id()
}
