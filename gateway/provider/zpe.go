// Package provider shows the jobs of a gateway as jobs of the Job API.
package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// ZPE shows the jobs of a gateway: those of kind zpe, scope "zpe", type zpe.calc; or, with
// Others, those of all other kinds, scope "gateway", type gateway.KIND. A job whose
// record in Redis cannot be read counts as none.
type ZPE struct {
	Queue  *queue.Queue
	Others bool
	// Stop cancels a job as [queue.Queue.Cancel] does. That of a gateway also wakes a worker
	// that waits there.
	Stop func(ctx context.Context, id jobs.ID) (ended string, err error)
	// Queued, when set, is called when a job was queued again: that of a gateway wakes a worker
	// that waits for one.
	Queued func()
	// QueuedKind is Queued for the jobs of other kinds.
	QueuedKind func(jobs.Kind)
	// OpenFile opens an artifact of a job of those, made under a lease; nil if this server
	// cannot. Parts of one that is an [io.Seeker] can be asked for. The error wraps [fs.ErrNotExist] when there is none.
	OpenFile func(ctx context.Context, id jobs.ID, lease, name string) (io.ReadCloser, error)
}

var _ jobapi.Jobs = (*ZPE)(nil)

const (
	zpeScope = "zpe"
	zpeType  = "zpe.calc"

	othersScope = "gateway"
	othersType  = "gateway."
)

// zpeStates are the states of the API by those of the gateway.
var zpeStates = map[string]jobs.State{
	queue.Queued: jobs.Queued, queue.Started: jobs.Running, queue.Finished: jobs.Succeeded, queue.Failed: jobs.Failed, queue.Canceled: jobs.Canceled,
}

// List implements [jobapi.Jobs].
func (z *ZPE) List(ctx context.Context, q jobapi.Query) (jobapi.Page, error) {
	if q.Type != "" && q.Type != zpeType && !z.Others {
		return jobapi.Page{}, nil
	}
	ask := queue.ListQuery{Limit: q.Limit, Cursor: q.Cursor, Others: z.Others, Until: q.Until}
	for word, state := range zpeStates {
		if state == q.Status {
			ask.State = word
		}
	}
	list, next, err := z.Queue.List(ctx, ask)
	if errors.Is(err, queue.ErrCursor) {
		return jobapi.Page{}, &jobapi.FieldError{Field: "cursor", Problem: queue.ErrCursor.Error()}
	}
	if err != nil {
		return jobapi.Page{}, notDone(err)
	}
	page := jobapi.Page{Next: next}
	for i := range list {
		j, ok := zpeHead(&list[i])
		if !ok || q.Type != "" && j.Type != q.Type {
			continue
		}
		page.Items = append(page.Items, j.Item())
	}
	return page, nil
}

// Get implements [jobapi.Jobs].
func (z *ZPE) Get(ctx context.Context, ids []string) ([]jobapi.Job, error) {
	asked := make([]jobs.ID, 0, len(ids))
	for _, s := range ids {
		if id, err := queue.ParseID(s); err == nil {
			asked = append(asked, id)
		}
	}
	list, err := z.Queue.Jobs(ctx, asked)
	if err != nil {
		return nil, notDone(err)
	}
	var found []jobapi.Job
	for i := range list {
		if !z.shows(&list[i]) {
			continue
		}
		j, ok, err := zpeJob(&list[i])
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, j)
		}
	}
	return found, nil
}

// Cancel implements [jobapi.Jobs].
func (z *ZPE) Cancel(ctx context.Context, id string) (jobapi.Job, error) {
	job, err := queue.ParseID(id)
	if err != nil {
		return jobapi.Job{}, jobapi.NoJob(id)
	}
	if err := z.has(ctx, job); err != nil {
		return jobapi.Job{}, err
	}
	ended, err := z.Stop(ctx, job)
	switch {
	case isNoJob(err):
		return jobapi.Job{}, jobapi.NoJob(id)
	case err != nil:
		return jobapi.Job{}, notDone(err)
	case ended != "":
		return jobapi.Job{}, fmt.Errorf("cancel job %s: %w: it is %s", job, jobapi.ErrEnded, ended)
	}
	return z.one(ctx, id)
}

// shows reports whether a job is of this scope.
func (z *ZPE) shows(j *queue.Job) bool { return (j.Kind != "") == z.Others }

// has returns an error unless a job is of this scope.
func (z *ZPE) has(ctx context.Context, id jobs.ID) error {
	kind, err := z.Queue.KindOf(ctx, id)
	switch {
	case isNoJob(err), err == nil && (kind != "") != z.Others:
		return jobapi.NoJob(string(id))
	case err != nil:
		return notDone(err)
	}
	return nil
}

// one returns a job.
func (z *ZPE) one(ctx context.Context, id string) (jobapi.Job, error) {
	found, err := z.Get(ctx, []string{id})
	if err == nil && len(found) == 0 {
		err = jobapi.NoJob(id)
	}
	if err != nil {
		return jobapi.Job{}, err
	}
	return found[0], nil
}

// isNoJob reports whether an error of the queue means that there is no such job, or
// that its key in Redis is something else.
func isNoJob(err error) bool {
	return errors.Is(err, queue.ErrNoJob) || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// notDone returns an error of the queue as package status does: a Redis that refuses a
// command is unavailable.
func notDone(err error) error {
	if _, ok := errors.AsType[redis.Error](err); ok && !errors.Is(err, jobs.ErrUnavailable) {
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	}
	return err
}

// zpeHead returns what a list shows of a job, if its status is one of the gateway's.
func zpeHead(q *queue.Job) (j jobapi.Job, ok bool) {
	state, ok := zpeStates[q.State()]
	if !ok {
		return jobapi.Job{}, false
	}
	created, updated := parseTime(q.CreatedAt), parseTime(q.UpdatedAt)
	j = jobapi.Job{
		ID: string(q.ID), Scope: zpeScope, Type: zpeType, Status: state, CreatedAt: jobapi.At(cmp.Or(created, q.FirstLeasedAt, q.LeasedAt, updated)),
		Attempt: max(0, q.Attempt), Worker: jobapi.ShownText(q.Worker, 256),
	}
	if q.Kind != "" {
		j.Scope, j.Type = othersScope, othersType+string(q.Kind)
	}
	// A job that waits, or was canceled while it waited, is shown without its last run: when that
	// ended is not on record.
	if waited := state == jobs.Canceled && !q.CancelRequested; state != jobs.Queued && !waited {
		j.StartedAt = jobapi.At(q.LeasedAt)
	}
	if state.Terminal() {
		j.FinishedAt = jobapi.At(cmp.Or(updated, q.LeasedAt, created))
		if j.FinishedAt.Before(j.StartedAt.Time) { // clocks of gateways differ
			j.FinishedAt = j.StartedAt
		}
	}
	return j, true
}

// parseTime reads a time of a record. It is zero if there is none.
func parseTime(s string) time.Time {
	t, _ := time.Parse(time.RFC3339, s)
	return t
}

// zpeJob returns all that is shown of a job.
func zpeJob(q *queue.Job) (jobapi.Job, bool, error) {
	j, ok := zpeHead(q)
	if !ok {
		return j, false, nil
	}
	step := jobapi.Step{Name: "run", Status: jobapi.Pending, StartedAt: j.StartedAt}
	if !j.StartedAt.IsZero() {
		step.FinishedAt = j.FinishedAt
	}
	j.Request = json.RawMessage("{}") // any part of a payload may be secret
	switch j.Status {
	case jobs.Queued:
		step.Message = jobapi.ShownText(q.Detail, 1<<10) // why it does not run yet, or any more
		if !q.RunAfter.IsZero() {
			until := q.RunAfter.Add(time.Second - 1).UTC().Format(time.RFC3339) // no sooner
			step.Message = "waits until " + until + before(": ", step.Message)
		}
	case jobs.Running:
		step.Status, step.Message = jobapi.Running, zpeProgress(q)
		if q.CancelRequested {
			step.Message = strings.TrimPrefix(step.Message+"; to be canceled", "; ")
		}
	case jobs.Succeeded:
		step.Status, step.Message = jobapi.Succeeded, jobapi.ShownText(q.Detail, 1<<10)
		if q.Kind != "" {
			of := func(path string) string { return strings.Replace(wire.PathOf(string(q.Kind), path), "{id}", j.ID, 1) }
			j.Result, _ = json.Marshal(map[string]string{"result": of(wire.PathJobResult), "artifacts": of(wire.PathArtifacts)})
			break
		}
		path := strings.Replace(wire.PathJobResult, "{id}", j.ID, 1)
		files := strings.Replace(wire.PathJobFiles, "{id}", j.ID, 1)
		j.Result, _ = json.Marshal(map[string]string{"result": path, "summary": files + "?kind=summary", "freqs": files + "?kind=freqs"})
	case jobs.Failed:
		j.Error = zpeError(q)
		step.Status, step.Message = jobapi.Failed, j.Error.Message
	case jobs.Canceled:
		step.Status = jobapi.Canceled
	}
	j.Steps = []jobapi.Step{step}
	j.Progress = jobapi.ProgressOf(j.Steps)
	if err := j.SetVersion(); err != nil {
		return j, false, err
	}
	return j, true, nil
}

// zpeProgress tells how far a running job has come, as its worker reports.
func zpeProgress(q *queue.Job) string {
	var parts []string
	if done, total := max(0, q.Done), max(0, q.Total); total > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d", done, total))
	} else if done > 0 {
		parts = append(parts, strconv.Itoa(done))
	}
	if text := jobapi.ShownText(q.Detail, 1<<10); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// zpeError returns why a job has failed. Its traceback is in the log.
func zpeError(q *queue.Job) *jobapi.Error {
	e := &jobapi.Error{Code: jobapi.ShownCode(q.ErrorCode), Message: jobapi.ShownText(q.ErrorMessage, wire.MaxErrorMessage)}
	if e.Message == "" {
		e.Message = jobapi.ShownText(q.Detail, wire.MaxErrorMessage)
	}
	return e
}
