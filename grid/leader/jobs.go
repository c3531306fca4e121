package leader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Jobs shows the jobs of a leader in the Job API: scope "grid", type grid.EXEC. Retry queues a dead letter again.
type Jobs struct{ Leader *Leader }

var (
	_ jobapi.Keeper    = Jobs{}
	_ jobapi.Retrier   = Jobs{}
	_ jobapi.Notifier  = Jobs{}
	_ jobapi.Feed      = Jobs{}
	_ jobapi.Counter   = Jobs{}
	_ jobapi.Explainer = Jobs{}
	_ jobapi.Pauser    = Jobs{}
	_ jobapi.Catalog   = Jobs{}
	_ jobapi.Drainer   = Jobs{}
	_ jobapi.Reporter  = Jobs{}
)

// Scope is the scope of a leader's jobs.
const Scope = "grid"

const archiveName = "archive.zip"

// do calls f with the state. The error wraps [jobs.ErrUnavailable].
func (j Jobs) do(ctx context.Context, f func(*schedule.Core)) error {
	if err := j.Leader.Do(ctx, f); err != nil {
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	}
	return nil
}

// List implements [jobapi.Jobs].
func (j Jobs) List(ctx context.Context, q jobapi.Query) (page jobapi.Page, err error) {
	var position uint64
	if q.Cursor != "" {
		if position, err = strconv.ParseUint(q.Cursor, 10, 64); err != nil || position == 0 {
			return page, &jobapi.FieldError{Field: "cursor", Problem: "no page had it"}
		}
	}
	exec, isOurs := strings.CutPrefix(q.Type, Scope+".")
	if q.Type != "" && !isOurs {
		return page, nil
	}
	var all []schedule.Info
	err = j.do(ctx, func(c *schedule.Core) {
		next := c.Jobs(position, untilMs(q.Until), func(i *schedule.Info) bool {
			return (q.Status == 0 || i.State == q.Status) && (q.Type == "" || i.Exec == exec)
		}, func(i schedule.Info) bool {
			all = append(all, i)
			return len(all) < q.Limit
		})
		if next > 0 {
			page.Next = strconv.FormatUint(next, 10)
		}
	})
	for i := range all {
		head := j.head(&all[i])
		page.Items = append(page.Items, head.Item())
	}
	return page, err
}

// Get implements [jobapi.Jobs].
func (j Jobs) Get(ctx context.Context, ids []string) ([]jobapi.Job, error) {
	type one struct {
		info schedule.Info
		why  string
	}
	var all []one
	err := j.do(ctx, func(c *schedule.Core) {
		for _, id := range ids {
			guid, err := wire.ParseGUID(id)
			if err != nil {
				continue
			}
			if i, ok := c.Get(guid); ok {
				all = append(all, one{i, c.Explain(j.Leader.now(), guid)})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	found := make([]jobapi.Job, 0, len(all))
	for i := range all {
		job, err := j.job(&all[i].info, all[i].why)
		if err != nil {
			return nil, err
		}
		found = append(found, job)
	}
	return found, nil
}

// get returns one job.
func (j Jobs) get(ctx context.Context, id string) (i schedule.Info, why string, err error) {
	guid, _ := wire.ParseGUID(id) // no job has the zero id
	known := false
	if err = j.do(ctx, func(c *schedule.Core) {
		i, known = c.Get(guid)
		why = c.Explain(j.Leader.now(), guid)
	}); err == nil && !known {
		err = jobapi.NoJob(id)
	}
	return i, why, err
}

// head returns what a list shows of a job.
func (j Jobs) head(i *schedule.Info) jobapi.Job {
	at := func(m schedule.Moment) jobapi.Time { return jobapi.At(j.Leader.started.Add(m)) }
	job := jobapi.Job{ID: i.ID.String(), Scope: Scope, Type: Scope + "." + i.Exec, Status: i.State, CreatedAt: at(i.Born), Worker: jobapi.ShownText(i.Worker, 255), Attempt: i.Attempts}
	switch {
	case i.State == jobs.Running:
		job.StartedAt = at(i.Since)
		job.Attempt++
	case i.State.Terminal():
		job.FinishedAt = at(i.Since)
		ran := j.ran(i)
		job.Worker = jobapi.ShownText(ran.Worker, 255)
		switch {
		case i.State == jobs.Canceled && ran.Worker != "": // while it ran
			job.StartedAt = at(min(max(i.Born, i.Since-time.Duration(ran.DurationMs)*time.Millisecond), i.Since)) // by the worker's clock
			job.Attempt++
		case i.Reason != "" || i.State == jobs.Succeeded:
			job.StartedAt = job.CreatedAt // the time of the start is not kept
			if !i.Dead {
				job.Attempt++
			}
		}
	}
	return job
}

// ran returns the result of a job that has ended, for its Worker and DurationMs: empty if the result is kept in a file.
func (j Jobs) ran(i *schedule.Info) (r wire.JobResult) {
	if n := len(i.History); i.Dead && n > 0 {
		r.Worker = i.History[n-1].Worker
	} else if len(i.Body.Bytes) <= j.Leader.LargeBody {
		_ = json.Unmarshal(i.Body.Bytes, &r) // a result without them is one, too
	}
	return r
}

// job returns all that is shown of a job.
func (j Jobs) job(i *schedule.Info, why string) (jobapi.Job, error) {
	job := j.head(i)
	request := map[string]any{"clientId": i.Client, "execName": i.Exec}
	if i.Last > 0 || i.First > 0 {
		request["array"] = fmt.Sprintf("%d-%d", i.First, i.Last)
	}
	if i.Index >= 0 {
		request["arrayId"], request["index"] = i.Array, i.Index
	}
	var err error
	if job.Request, err = json.Marshal(request); err != nil {
		return job, err
	}
	step := jobapi.Step{Name: "run", StartedAt: job.StartedAt, FinishedAt: job.FinishedAt, Message: jobapi.ShownText(why, 1<<10)}
	switch i.State {
	case jobs.Queued:
		step.Status = jobapi.Pending
	case jobs.Running:
		step.Status = jobapi.Running
		if i.Message != "" {
			step.Message = jobapi.ShownText(i.Message, 1<<10)
		}
	case jobs.Succeeded:
		step.Status = jobapi.Succeeded
		job.Result, err = json.Marshal(map[string]any{"bytes": i.Body.Size, "fetched": i.Delivered})
	case jobs.Canceled:
		step.Status = jobapi.Canceled
	case jobs.Failed:
		step.Status = jobapi.Failed
		code, message := "FAILED", why
		if i.Dead {
			code = "DEAD_LETTER"
		} else if i.Reason != "" {
			code = strings.ToUpper(i.Reason)
		}
		job.Error = &jobapi.Error{Code: jobapi.ShownCode(code), Message: jobapi.ShownText(message, 2<<10)}
	}
	for _, a := range i.History {
		job.Attempts = append(job.Attempts, j.attempt(a))
	}
	job.Steps = []jobapi.Step{step}
	job.Progress = jobapi.ProgressOf(job.Steps)
	return job, errors.Join(err, job.SetVersion())
}

// result returns the result of a job; nil if it has not ended.
func (j Jobs) result(ctx context.Context, id string) (*wire.JobResult, schedule.Info, error) {
	i, _, err := j.get(ctx, id)
	if err != nil || !i.State.Terminal() {
		return nil, i, err
	}
	text := i.Body.Bytes
	if !i.Body.Ref.IsZero() {
		if text, err = j.Leader.bodies.get(i.Body.Ref); err != nil {
			return nil, i, fmt.Errorf("%w: read the result of job %s: %w", jobs.ErrUnavailable, id, err)
		}
	}
	var r wire.JobResult
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, i, fmt.Errorf("read the result of job %s: %w", id, err)
	}
	return &r, i, nil
}

// Log implements [jobapi.Jobs]: the lines that the worker has reported, or else the output in the result.
func (j Jobs) Log(ctx context.Context, id string, q jobapi.LogQuery) (log jobapi.Log, err error) {
	r, i, err := j.result(ctx, id)
	if err != nil {
		return log, err
	}
	var lines []schedule.Line
	if err := j.do(ctx, func(c *schedule.Core) {
		kept, dropped, _ := c.Log(i.ID)
		lines, log.Dropped = slices.Clone(kept), dropped
	}); err != nil {
		return log, err
	}
	if len(lines) == 0 && log.Dropped == 0 && r != nil {
		lines = outputOf(r, i.Since)
	}
	after := 0
	if q.After != "" {
		if after, err = strconv.Atoi(q.After); err != nil {
			return log, &jobapi.FieldError{Field: "after", Problem: "no line has it"}
		}
	}
	var shown jobapi.ShownLines
	for _, line := range lines {
		text := shown.Next(jobs.LogLine(line.Text, false))
		at := j.Leader.started.Add(line.At)
		if line.Number > after && !at.Before(q.Since) {
			log.Lines = append(log.Lines, jobapi.Line{Pos: strconv.Itoa(line.Number), Time: at, Text: text})
		}
	}
	if n := len(log.Lines) - q.Tail; n > 0 && q.After == "" {
		log.Lines = log.Lines[n:]
	} else if n > 0 {
		log.Lines = log.Lines[:q.Tail]
	}
	return log, nil
}

// outputOf returns the lines of a result.
func outputOf(r *wire.JobResult, at schedule.Moment) (lines []schedule.Line) {
	for _, text := range []string{r.Stdout, r.Stderr} {
		for line := range strings.Lines(text) {
			lines = append(lines, schedule.Line{Number: len(lines) + 1, At: at, Text: strings.TrimRight(line, "\r\n")})
		}
	}
	return lines
}

// Cancel implements [jobapi.Jobs].
func (j Jobs) Cancel(ctx context.Context, id string) (jobapi.Job, error) {
	guid, _ := wire.ParseGUID(id) // no job has the zero one
	open := false
	if err := j.do(ctx, func(c *schedule.Core) { open = c.Cancel(j.Leader.now(), "", guid) }); err != nil {
		return jobapi.Job{}, err
	}
	i, why, err := j.get(ctx, id)
	if err == nil && !open {
		err = fmt.Errorf("cancel job %s: %w: it is %s", id, jobapi.ErrEnded, i.State)
	}
	if err != nil {
		return jobapi.Job{}, err
	}
	return j.job(&i, why)
}

// Retry implements [jobapi.Retrier] for dead letters. Requests of other jobs that have ended are not kept.
func (j Jobs) Retry(ctx context.Context, id string) (jobapi.Job, error) {
	i, _, err := j.get(ctx, id)
	if err != nil {
		return jobapi.Job{}, err
	}
	if i.State != jobs.Failed {
		return jobapi.Job{}, fmt.Errorf("retry job %s: %w: it is %s", id, jobapi.ErrNotFailed, i.State)
	}
	requeued := false
	if err := j.do(ctx, func(c *schedule.Core) { requeued = c.Requeue(j.Leader.now(), i.ID) }); err != nil {
		return jobapi.Job{}, err
	}
	if !requeued {
		return jobapi.Job{}, &jobapi.Refusal{
			Status: 409, Code: jobapi.CodeConflict, Message: "Only a dead letter can be queued again. The program of this job has failed, and its client has the result: submit the job again",
		}
	}
	i, why, err := j.get(ctx, id)
	if err != nil {
		return jobapi.Job{}, err
	}
	return j.job(&i, why)
}

// Changed implements [jobapi.Notifier].
func (j Jobs) Changed() <-chan struct{} { return j.Leader.changes.Changed() }

// Artifacts implements [jobapi.Keeper]: the archive of the files that the program has left.
func (j Jobs) Artifacts(ctx context.Context, id string) ([]jobapi.Artifact, error) {
	r, _, err := j.result(ctx, id)
	if err != nil || r == nil || len(r.OutputArchive) == 0 {
		return nil, err
	}
	return []jobapi.Artifact{archive(r)}, nil
}

func archive(r *wire.JobResult) jobapi.Artifact {
	sum := sha256.Sum256(r.OutputArchive)
	text := hex.EncodeToString(sum[:])
	return jobapi.Artifact{Name: archiveName, MediaType: "application/zip", Bytes: int64(len(r.OutputArchive)), SHA256: text, Tag: text}
}

// OpenArtifact implements [jobapi.Keeper].
func (j Jobs) OpenArtifact(ctx context.Context, id, name string) (io.ReadCloser, jobapi.Artifact, error) {
	r, _, err := j.result(ctx, id)
	if err != nil {
		return nil, jobapi.Artifact{}, err
	}
	if r == nil || name != archiveName || len(r.OutputArchive) == 0 {
		return nil, jobapi.Artifact{}, jobapi.NoJob(id)
	}
	return content{bytes.NewReader(r.OutputArchive)}, archive(r), nil
}

type content struct{ *bytes.Reader }

// Close implements io.Closer.
func (content) Close() error { return nil }
