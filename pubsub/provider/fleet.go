// Package provider shows the jobs of Pub/Sub workers, and the workers, in the Job API.
package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/trace"
)

// Fleet shows the jobs of Pub/Sub workers, scope "fleet", types fleet.KIND. A
// document in Redis that cannot be read counts as no job, as it does for workers;
// one with an unknown status is shown as running.
type Fleet struct {
	Status *status.Store
	// Storage returns where the results are; nil where that is not known.
	Storage func(context.Context) (storage.Store, error)
	// Publish sends a job's message to the fleet's topic; nil where there is none.
	Publish func(context.Context, jobs.Job) (string, error)
	// Redrive queues a job again from its dead letter, and returns what was done, empty if it has none, and whether the job
	// is queued; nil where there are no dead letters.
	Redrive func(ctx context.Context, id jobs.ID) (did string, queued bool, err error)
	// KindsFile returns the kinds of the kinds file, by which jobs are checked that are submitted; nil where there is none.
	KindsFile func() *kinds.Set
}

var _ jobapi.Jobs = (*Fleet)(nil)

const fleetScope = "fleet"

var kindPattern = jobs.Form(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// List implements [jobapi.Jobs].
func (f *Fleet) List(ctx context.Context, q jobapi.Query) (jobapi.Page, error) {
	kind, ours := strings.CutPrefix(q.Type, fleetScope+".")
	if q.Type != "" && (!ours || !kindPattern().MatchString(kind)) {
		return jobapi.Page{}, nil
	}
	entries, next, err := f.Status.List(ctx, status.Query{State: q.Status, Kind: jobs.Kind(kind), Limit: q.Limit, Cursor: q.Cursor, Until: q.Until})
	if errors.Is(err, status.ErrCursor) {
		return jobapi.Page{}, &jobapi.FieldError{Field: "cursor", Problem: status.ErrCursor.Error()}
	}
	if err != nil {
		return jobapi.Page{}, err
	}
	page := jobapi.Page{Next: next}
	for _, e := range entries {
		if e.State() == 0 {
			continue
		}
		j := fleetHead(e)
		page.Items = append(page.Items, j.Item())
	}
	return page, nil
}

// Get implements [jobapi.Jobs].
func (f *Fleet) Get(ctx context.Context, ids []string) ([]jobapi.Job, error) {
	asked := make([]jobs.ID, 0, len(ids))
	for _, s := range ids {
		if id, err := jobs.ParseID(s); err == nil {
			asked = append(asked, id)
		}
	}
	entries, err := f.Status.Entries(ctx, asked)
	if err != nil {
		return nil, err
	}
	var found []jobapi.Job
	for _, e := range entries {
		if e.State() == 0 {
			continue
		}
		j, err := fleetJob(e)
		if err != nil {
			return nil, err
		}
		found = append(found, j)
	}
	return found, nil
}

// Log implements [jobapi.Jobs].
func (f *Fleet) Log(ctx context.Context, id string, q jobapi.LogQuery) (jobapi.Log, error) {
	job, err := jobs.ParseID(id)
	if err != nil {
		return jobapi.Log{}, jobapi.NoJob(id)
	}
	lines, err := f.Status.Lines(ctx, job, status.LogQuery{Tail: q.Tail, Since: q.Since, After: q.After})
	if err != nil {
		return jobapi.Log{}, err
	}
	var log jobapi.Log
	if len(lines) == 0 {
		return log, nil
	}
	before, err := f.Status.LinesBefore(ctx, job, lines[0].Pos, redact.MaxHidden)
	if err != nil {
		return jobapi.Log{}, err
	}
	var shown jobapi.ShownLines
	for _, l := range before {
		shown.Next(l.Text)
	}
	for _, l := range lines {
		log.Lines = append(log.Lines, jobapi.Line{Pos: l.Pos, Time: l.Time, Text: shown.Next(l.Text)})
	}
	return log, nil
}

// Cancel implements [jobapi.Jobs].
func (f *Fleet) Cancel(ctx context.Context, id string) (jobapi.Job, error) {
	job, err := jobs.ParseID(id)
	if err != nil {
		return jobapi.Job{}, jobapi.NoJob(id)
	}
	if state, err := f.Status.Cancel(ctx, job); errors.Is(err, status.ErrEnded) {
		return jobapi.Job{}, fmt.Errorf("cancel job %s: %w: it is %s", job, jobapi.ErrEnded, state)
	} else if err != nil {
		return jobapi.Job{}, err
	}
	return f.one(ctx, id)
}

// shownKind returns what is shown of a kind: UnknownKind for what is no name of one, or may be a secret.
func shownKind(kind jobs.Kind) string {
	if name := string(kind); kindPattern().MatchString(name) && redact.Text(name) == name {
		return name
	}
	return string(status.UnknownKind)
}

// fleetHead returns what a list shows of a job.
func fleetHead(e status.Entry) jobapi.Job {
	d, state := e.Detail, e.State()
	kind := shownKind(d.Kind)
	updated, _ := time.Parse(time.RFC3339, e.UpdatedAt) // zero if it is no time
	j := jobapi.Job{
		ID: string(e.ID), Scope: fleetScope, Type: fleetScope + "." + kind, Status: state,
		CreatedAt: jobapi.At(cmp.Or(e.Created, updated)),
		Attempt:   max(0, d.Attempt), Worker: jobapi.ShownText(d.Worker, 256),
		Silent: int(e.Silent.Truncate(10 * time.Second).Seconds()), // not to the second: each is a change
	}
	if state != jobs.Queued { // a queued job is shown without its last attempt
		j.StartedAt = jobapi.At(d.Started)
	}
	if state.Terminal() {
		j.FinishedAt = jobapi.At(cmp.Or(d.Finished, updated, d.Started, e.Created))
	}
	return j
}

// fleetJob returns all that is shown of a job.
func fleetJob(e status.Entry) (jobapi.Job, error) {
	j := fleetHead(e)
	j.TraceID = trace.IDOf(e.Detail.Trace)
	failure := jobapi.ShownText(e.ErrorMsg, status.MaxErrorMsg)
	j.Steps = fleetSteps(e, j, jobapi.ShownText(e.Message, 1<<10), failure)
	j.Progress = jobapi.ProgressOf(j.Steps)
	j.Attempts = pastAttempts(e.Detail.Past)
	request := map[string]any{"kind": strings.TrimPrefix(j.Type, fleetScope+"."), "input": jobapi.ShownText(e.Detail.Input, 1<<10)}
	if e.Detail.Asked > 0 {
		request["pages"] = e.Detail.Asked
	}
	var result map[string]any
	switch j.Status {
	case jobs.Succeeded:
		result = map[string]any{"object": jobapi.ShownText(e.ResultURL, 1<<10), "pages": max(0, e.Detail.Pages)}
		if isOwn(e.Detail.Kind) {
			result["files"] = max(0, e.Detail.Files)
		}
		if touched := e.Detail.Damaged; touched != nil {
			result["damaged"], result["damagedPages"] = true, max(0, *touched)
		}
	case jobs.Failed:
		j.Error = &jobapi.Error{Code: failureCode(e.Detail.Code), Message: failure}
	case jobs.Queued, jobs.Running, jobs.Canceled:
	}
	var err, err2 error
	j.Request, err = json.Marshal(request)
	if result != nil {
		j.Result, err2 = json.Marshal(result)
	}
	if err := errors.Join(err, err2); err != nil {
		return jobapi.Job{}, fmt.Errorf("show job %s: %w", e.ID, err)
	}
	if err := j.SetVersion(); err != nil {
		return jobapi.Job{}, err
	}
	return j, nil
}

// failureCode returns the API's word for what kind of failure it was.
func failureCode(recorded string) string {
	if recorded == "JOB_TIMEOUT" {
		return jobapi.CodeTimeout
	}
	return jobapi.ShownCode(recorded)
}

// stepNames returns the steps of a job, in order. Workers report them.
func stepNames(kind jobs.Kind) []string {
	if isOwn(kind) {
		return []string{"fetch", "run", "store"}
	}
	return []string{"fetch", "pages", "store"}
}

// isOwn reports whether a kind is one of people's own. It is false for a kind that is not known yet: messages without
// a kind are for documents.
func isOwn(kind jobs.Kind) bool {
	return kind != "" && kind != status.UnknownKind && !slices.Contains(builtIn, string(kind))
}

// fleetSteps returns how far each step of the last attempt has come, by its record. A
// worker does not report everything, so a step may have no time of its own: then it
// was between its neighbors.
func fleetSteps(e status.Entry, j jobapi.Job, message, failure string) []jobapi.Step {
	names := stepNames(e.Detail.Kind)
	n := len(names)
	noInput := e.Detail.Input == "" && !isOwn(e.Detail.Kind) // one of those may have several
	steps := make([]jobapi.Step, n)
	last := -1
	for i, name := range names {
		steps[i] = jobapi.Step{Name: name, Status: jobapi.Pending}
		if at := e.Detail.Steps[name]; j.Status != jobs.Queued && !j.StartedAt.IsZero() && !jobapi.At(at).Before(j.StartedAt.Time) {
			steps[i].StartedAt, last = jobapi.At(at), i
		}
	}
	current := last // the step that the job is in, or ended in
	if j.Status == jobs.Succeeded {
		if last < 0 {
			for i := range steps {
				steps[i].Status, steps[i].StartedAt, steps[i].FinishedAt = jobapi.Skipped, j.FinishedAt, j.FinishedAt
				steps[i].Message = "An earlier attempt has stored the result"
			}
			return steps
		}
		current = n
	}
	if j.Status == jobs.Running && current < 0 && !j.StartedAt.IsZero() {
		// It has begun, and reports later: with its first step that is not skipped.
		if current = 0; noInput {
			current = 1
		}
		steps[current].StartedAt = j.StartedAt
	}
	until := j.FinishedAt
	for i := min(current, n-1); i >= 0; i-- {
		s := &steps[i]
		if s.StartedAt.IsZero() {
			if s.StartedAt = until; i == 0 {
				s.StartedAt = j.StartedAt
			}
		}
		if i < current {
			s.Status, s.FinishedAt = jobapi.Succeeded, until
			if i == 0 && noInput {
				s.Status, s.Message = jobapi.Skipped, "The job has no input"
			}
		}
		until = s.StartedAt
	}
	switch j.Status {
	case jobs.Running:
		if current >= 0 {
			steps[current].Status, steps[current].Message = jobapi.Running, message
			if names[current] == "run" && e.Progress > 0 && !strings.Contains(message, "%") { // a program counts in units of its own
				steps[current].Message = strings.TrimSuffix(fmt.Sprintf("%d%%: %s", min(100, e.Progress), message), ": ")
			}
		}
	case jobs.Failed:
		if current >= 0 {
			steps[current].Status, steps[current].FinishedAt, steps[current].Message = jobapi.Failed, j.FinishedAt, failure
		}
	case jobs.Canceled:
		for i := max(0, current); i < n; i++ {
			steps[i].Status = jobapi.Canceled
			if i == current {
				steps[i].FinishedAt, steps[i].Message = j.FinishedAt, message
			}
		}
	case jobs.Queued:
		if e.Message != status.MessageQueued { // an attempt was given up: this says why it waits again
			steps[0].Message = message
		}
		if next := e.Detail.Next; !next.IsZero() {
			steps[0].Message = "waits until " + next.Add(time.Second-1).UTC().Format(time.RFC3339) + ": " + message // no sooner
		}
	case jobs.Succeeded:
	}
	return steps
}
