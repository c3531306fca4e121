// Package repair restores jobs after Redis has lost its last writes (power cut,
// failover): jobs whose result is stored are recorded as completed, and those that
// wait although no message of theirs may exist are published again. That is harmless
// where one does exist: the claim on a job decides who runs it, and a job that has
// ended is not run again.
//
// Workers do this by themselves, one at a time; `batchfleet fsck --repair` and the
// operation system.fsck do it at once.
package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// Repair is what a round works on.
type Repair struct {
	Status  *status.Store
	Store   storage.Store
	Publish func(context.Context, jobs.Job) (string, error) // nil to publish nothing
	Log     *slog.Logger
	Dir     string                // for temporary files; the system's when empty
	Found   func(redisdb.Finding) // is told of each finding; may be nil

	working func() // is told that a round goes on; may be nil
}

// Options says what a round looks for.
type Options struct {
	// Lost is when Redis may have lost what it wrote last: jobs that have shown no life
	// since then are looked at, jobs in no index and results of jobs that are not on
	// record, too. Zero for a round without a loss.
	Lost time.Time
	// Age is how long a job waits for a message before it is published again, twice as
	// long the next time, and so on. Zero for never.
	Age time.Duration
	// Most is how many jobs are published at most; 0 for all.
	Most int
	// Dry looks and repairs nothing.
	Dry bool
}

// Seen is what came of a round.
type Seen struct {
	Recorded  int // jobs recorded as completed
	Published int // jobs published again
	Left      int // jobs that wait because more than Options.Most were published
	Failed    int // jobs that could not be repaired
}

// unrecorded is a finding: the result of a job is stored, but it is not on record as
// completed.
const unrecorded = "result without status"

// round is a Repair at work.
type round struct {
	*Repair
	Options
	pages    *processor.Pages
	now      time.Time
	seen     Seen
	failures int // of jobs, one after the other
}

// Round looks once at all jobs that may have been forgotten. An error says that it could
// not go on; what it did until then holds.
func (r *Repair) Round(ctx context.Context, o Options) (Seen, error) {
	at := &round{Repair: r, Options: o, now: time.Now()}
	at.pages = &processor.Pages{Store: r.Store, Log: r.Log, Dir: r.Dir}
	if at.pages.Dir == "" {
		at.pages.Dir = os.TempDir()
	}
	if !o.Lost.IsZero() && !o.Dry {
		if err := r.Status.EnterAgain(ctx, at.tick); err != nil {
			return at.seen, err
		}
	}
	err := r.Status.Strays(ctx, !o.Lost.IsZero(), func(page []status.Stray) error {
		at.tick()
		for _, s := range page {
			if err := at.next(ctx, s.ID, at.stray(ctx, s)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !o.Lost.IsZero() {
		err = at.results(ctx)
	}
	return at.seen, err
}

// tick says that the round goes on.
func (r *round) tick() {
	if r.working != nil {
		r.working()
	}
}

// maxFailures is how many jobs may fail one after the other before a round ends: then it
// is not about the jobs.
const maxFailures = 10

// next records whether a job was repaired. A single failure does not end the round.
func (r *round) next(ctx context.Context, id jobs.ID, err error) error {
	r.tick()
	switch {
	case err == nil:
		r.failures = 0
		return nil
	case ctx.Err() != nil:
		return err
	}
	r.failed(ctx, id, err)
	if r.failures++; r.failures == maxFailures {
		return fmt.Errorf("%d jobs in succession: %w", maxFailures, err)
	}
	return nil
}

// failed says why a job is not repaired.
func (r *round) failed(ctx context.Context, id jobs.ID, err error) {
	r.Log.WarnContext(ctx, "cannot repair a job", "job", id, "err", err)
	r.seen.Failed++
	r.found(status.Unrepaired, id, err.Error(), "")
}

// due reports whether it is time to do something about a stray.
func (r *round) due(s status.Stray) bool {
	last, sent := s.Since, s.Detail.Sent
	if last.Before(r.Lost) && sent.Before(r.Lost) {
		return true
	}
	if sent.After(last) {
		last = sent
	}
	return r.Age > 0 && r.now.Sub(last) >= r.Age<<min(s.Detail.Resent, 10)
}

// stray puts a job right that no worker runs.
func (r *round) stray(ctx context.Context, s status.Stray) error {
	if !r.due(s) {
		return nil
	}
	job, lost := r.Status.Job(ctx, s.Entry)
	done, err := r.record(ctx, job)
	if done || err != nil {
		return err
	}
	if lost != nil {
		return lost // its result would have told
	}
	return r.publish(ctx, job)
}

// hold is how long a repair claims a job: it reads a result and writes an outcome.
const hold = time.Minute

// record records a job as completed if its result is stored. It reports whether there
// is nothing more to do.
func (r *round) record(ctx context.Context, job jobs.Job) (bool, error) {
	stored, err := processor.Stored(ctx, r.Store, job.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid):
		return false, nil
	case err != nil:
		return false, err
	}
	if job.Kind == "" {
		job.Kind = jobs.Kind(stored.Kind)
	}
	if job.Submitted.IsZero() {
		job.Submitted, _ = time.Parse(time.RFC3339, stored.ProcessedAt)
	}
	earlier := r.pages.Earlier
	if stored.OfDocument() {
		if job.Input == "" {
			job.Input = stored.Document.Input
		}
		if job.Input != stored.Document.Input {
			return false, nil // of an earlier job with this id
		}
	} else {
		earlier = r.earlierOfOwn
		var found bool
		if job, found, err = r.ofOwn(ctx, job); err != nil || !found {
			return false, err
		}
	}
	if r.Dry {
		r.found(unrecorded, job.ID, "its result is stored", "")
		return true, nil
	}
	c, err := r.Status.Claim(ctx, job, hold, jobs.Claim{})
	if err != nil {
		return false, errors.Join(err, r.release(ctx, c)) // it may be granted all the same
	}
	if c.Verdict != jobs.Granted && c.Verdict != jobs.CrashLoop {
		return true, nil // a worker runs it, or it has ended
	}
	result, found, err := earlier(ctx, job)
	if err == nil && found {
		if _, err = r.Status.Finish(ctx, c, jobs.Outcome{State: jobs.Succeeded, Result: result}); err == nil {
			r.seen.Recorded++
			r.found(unrecorded, job.ID, "its result is stored", "recorded as completed")
			return true, nil
		}
	}
	return false, errors.Join(err, r.release(ctx, c))
}

// release gives a claim back, so that it does not count as a crash.
func (r *round) release(ctx context.Context, c jobs.Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := r.Status.Release(ctx, c, status.MessageQueued)
	if errors.Is(err, jobs.ErrLeaseLost) {
		return nil // it was not granted
	}
	return err
}

// publish publishes the message of a job again.
func (r *round) publish(ctx context.Context, job jobs.Job) error {
	if r.Publish == nil {
		return nil
	}
	const detail = "nobody runs it, and its message may be lost"
	if job.Input == "" && len(job.Inputs) == 0 && (job.Kind == "" || job.Kind == "pdf") { // others may have none
		var err error
		if job.Input, err = r.input(ctx, job.ID); err != nil {
			return err
		}
		if job.Input == "" {
			return nil // nothing says what it is to work on
		}
	}
	if r.Dry || r.Most > 0 && r.seen.Published >= r.Most {
		r.seen.Left++
		r.found(status.Waiting, job.ID, detail, "")
		return nil
	}
	_, err := r.Publish(ctx, job)
	if err != nil && !errors.Is(err, worker.ErrRefused) {
		return err // it keeps its turn
	}
	// A job that no worker accepts is not published in each round.
	marked := r.Status.MarkSent(ctx, job.ID)
	if err != nil {
		r.failed(ctx, job.ID, err)
		return marked
	}
	r.seen.Published++
	r.found(status.Waiting, job.ID, detail, "published again")
	return marked
}

// input returns the object that a job was submitted with where its status does not say:
// one of the web page, which no worker has begun. Empty if there is none.
func (r *round) input(ctx context.Context, id jobs.ID) (string, error) {
	found := ""
	err := r.Store.Walk(ctx, "uploads/"+string(id)+"/", func(name string, _ storage.Info, err error) error {
		if err == nil {
			found = name
		}
		return fs.SkipAll
	})
	if err != nil && !errors.Is(err, fs.SkipAll) && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look for the input of job %s: %w", id, err)
	}
	return found, nil
}

func (r *round) found(kind string, id jobs.ID, detail, done string) {
	if done != "" {
		r.Log.Info("repaired a job that Redis had forgotten", "job", id, "found", kind, "done", done)
	}
	if r.Found != nil {
		r.Found(status.NewFinding(kind, id, detail, done))
	}
}
