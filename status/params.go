package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// What a job is asked to do may be long, so it has a key of its own, which lists do not read: a
// line with its inputs as JSON, if it has several, and then its parameters. The details have its
// length.

// paramsText returns that text; empty for a job with neither.
func paramsText(job jobs.Job) string {
	if job.Payload == "" && len(job.Inputs) == 0 {
		return ""
	}
	inputs := ""
	if len(job.Inputs) > 0 {
		text, _ := json.Marshal(job.Inputs) // strings only
		inputs = string(text)
	}
	return inputs + "\n" + job.Payload
}

// Job returns a job as it was submitted, as far as it is on record. The error wraps
// [fs.ErrNotExist] if it had parameters or several inputs that Redis has lost.
func (s *Store) Job(ctx context.Context, e Entry) (jobs.Job, error) {
	job := e.job()
	if e.Detail.Params == 0 {
		return job, nil
	}
	what := fmt.Sprintf("read parameters of job %s", e.ID)
	text, err := s.rdb.Get(ctx, paramsKey(e.ID)).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // it comes as it is
		return job, unavailable(what, err)
	}
	if len(text) != e.Detail.Params {
		return job, fmt.Errorf("%s: Redis has lost them: %w", what, fs.ErrNotExist)
	}
	inputs, params, _ := strings.Cut(text, "\n")
	if inputs != "" {
		if err := json.Unmarshal([]byte(inputs), &job.Inputs); err != nil {
			return job, fmt.Errorf("%s: %w", what, err)
		}
	}
	job.Payload = params
	return job, nil
}

// job returns what the details say of a job.
func (e Entry) job() jobs.Job {
	d := e.Detail
	return jobs.Job{ID: e.ID, Kind: d.Kind, Input: d.Input, Pages: d.Asked, Submitted: d.Submitted, Trace: d.Trace}
}
