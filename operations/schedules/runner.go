// Package schedules makes jobs that come again and again: by a schedule of cron in a time zone.
//
// Schedules are in Redis. Any number of servers may share them: one makes the jobs, and another within [hold] after that one has
// died. A run is submitted with an idempotency key that its schedule and its time make up, so it is one job, also if it is
// submitted twice.
package schedules

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// poll is how often schedules are looked at: a job may be made so much later than it is due.
	poll = 2 * time.Second
	// hold is how long after its last look a server is still the one that makes jobs.
	hold = 15 * time.Second
	// standby is how often the other servers ask.
	standby = 5 * time.Second
	// callTimeout bounds a call of Redis, submitTimeout one of a scope.
	callTimeout   = 5 * time.Second
	submitTimeout = 15 * time.Second
	// maxDue is how many schedules one look returns at most.
	maxDue = 50
)

// Runner makes the jobs of schedules. All fields are required.
type Runner struct {
	Store  *Store
	Scopes map[string]jobapi.Submitter // where jobs can be submitted, by scope
	Log    *slog.Logger
}

// tick is what a look has found.
type tick struct {
	mine bool
	now  time.Time     // by Redis's clock
	next time.Duration // until the next run; negative for none
	due  []dueSchedule
}

type dueSchedule struct {
	name, text string
	at         time.Time
}

// Run makes jobs until ctx ends.
func (r *Runner) Run(ctx context.Context) {
	id, well := rand.Text(), true
	for {
		t, err := r.look(ctx, id)
		if err != nil && well && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "cannot look at schedules, trying again", "err", err)
		}
		well = err == nil
		pause := standby
		if t.mine {
			pause = poll
			if t.next > 0 {
				pause = min(poll, t.next)
			}
			for _, d := range t.due {
				r.make(ctx, d, t.now)
			}
		}
		if jobs.Sleep(ctx, pause) != nil {
			break
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, _ = r.Store.run(last, "leave schedules to others", resignScript, []string{runnerKey}, id) // or else others wait for hold
}

func (r *Runner) look(ctx context.Context, id string) (t tick, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := r.Store.run(ctx, "look at schedules", tickScript, []string{runnerKey, nextKey, allKey}, id, hold.Milliseconds(), maxDue)
	if err != nil {
		return t, err
	}
	t = tick{mine: got.Number(0) == 1, now: time.UnixMilli(got.Number(1)).UTC(), next: time.Duration(got.Number(2)) * time.Millisecond}
	for i := 3; i+2 < len(got); i += 3 {
		ms, err := strconv.ParseFloat(got.Text(i+1), 64)
		if err != nil {
			return t, unavailable("look at schedules", err)
		}
		t.due = append(t.due, dueSchedule{got.Text(i), got.Text(i + 2), time.UnixMilli(int64(ms)).UTC()})
	}
	return t, nil
}

// make makes the jobs of a schedule that are due, and says when it comes next. What cannot be made now is made
// with a later look.
func (r *Runner) make(ctx context.Context, d dueSchedule, now time.Time) {
	var last *jobapi.ScheduleRun
	next := now.Add(24 * time.Hour) // of one that cannot be read, as others may have written it
	sch, err := shown(d.text, "", 0)
	if err == nil {
		last, next, err = r.runs(ctx, sch, d.at, now)
	}
	if errors.Is(err, jobs.ErrUnavailable) && ctx.Err() == nil && last == nil && next.IsZero() {
		r.Log.WarnContext(ctx, "cannot make the job of a schedule, trying again", "schedule", d.name, "err", err)
		return
	}
	if err != nil && ctx.Err() == nil {
		r.Log.ErrorContext(ctx, "a schedule cannot be followed", "schedule", d.name, "err", err)
	}
	text := ""
	if last != nil {
		b, _ := json.Marshal(last) // it always has a form
		text = string(b)
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := r.Store.run(call, "record a run", doneScript, []string{nextKey, lastKey, allKey}, d.name, d.text, next.UnixMilli(), text); err != nil {
		r.Log.WarnContext(ctx, "cannot record the run of a schedule, trying again", "schedule", d.name, "err", err)
	}
}

// runs makes the jobs of a schedule that are due since first, and returns the newest run and when it comes next. next is zero
// if the store of the jobs is away: then all of them are made again, which gives the same jobs.
func (r *Runner) runs(ctx context.Context, sch jobapi.Schedule, first, now time.Time) (last *jobapi.ScheduleRun, next time.Time, err error) {
	loc, err := zone(sch)
	if err != nil {
		return &jobapi.ScheduleRun{Due: jobapi.At(first), Error: noZone(sch.Zone)}, now.Add(time.Hour), err
	}
	dues, next, err := due(sch.Cron, loc, sch.CatchUp, first, now)
	if err != nil {
		return &jobapi.ScheduleRun{Due: jobapi.At(first), Error: err.Error()}, now.Add(24 * time.Hour), err
	}
	for _, at := range dues {
		last = &jobapi.ScheduleRun{Due: jobapi.At(at)}
		job, err := r.submit(ctx, sch, Key(sch.Name, at))
		switch {
		case errors.Is(err, jobs.ErrUnavailable), err != nil && ctx.Err() != nil, isBusy(err):
			return nil, time.Time{}, fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
		case err != nil:
			last.Error = jobapi.ShownText(err.Error(), 500)
			r.Log.WarnContext(ctx, "the job of a schedule was refused", "schedule", sch.Name, "due", at, "err", err)
		default:
			last.JobID = job.ID
			r.Log.InfoContext(ctx, "job of a schedule", "schedule", sch.Name, "due", at, "job", job.ID)
		}
	}
	return last, next, nil
}

// isBusy reports whether a job was refused only for now.
func isBusy(err error) bool {
	refused, ok := errors.AsType[*jobapi.Refusal](err)
	return ok && (refused.Status == 429 || refused.Status >= 500)
}

// Key is the idempotency key of a run.
func Key(name string, due time.Time) string {
	return "schedule/" + name + "/" + strconv.FormatInt(due.Unix(), 10)
}

// submit makes a job; an empty key is for one that is made by hand.
func (r *Runner) submit(ctx context.Context, sch jobapi.Schedule, key string) (jobapi.Job, error) {
	submitter := r.Scopes[sch.Scope]
	if submitter == nil {
		return jobapi.Job{}, fmt.Errorf("this server takes no jobs of scope %q", sch.Scope)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), submitTimeout)
	defer cancel()
	job, _, err := submitter.Submit(ctx, submission(sch, key))
	return job, err
}

func submission(sch jobapi.Schedule, key string) jobapi.Submission {
	return jobapi.Submission{Kind: sch.Kind, Params: sch.Params, Inputs: sch.Inputs, Key: key}
}
