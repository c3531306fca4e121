package jobapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

// Submitter is a Jobs to which jobs can be given.
type Submitter interface {
	Jobs
	// Submit queues a job and returns it as it is then. If it was submitted before with the same key, it returns that
	// job, and repeated is true. What is wrong with the submission is a [FieldError], or a [Refusal] with details.field
	// or, if there is a job with that id already, details.status.
	Submit(ctx context.Context, s Submission) (job Job, repeated bool, err error)
}

// Submission is what a job is asked to do.
type Submission struct {
	Kind   string          `json:"kind" required:"true"`
	Params json.RawMessage `json:"params"` // an object; empty for none
	Input  string          `json:"input"`  // an object of the storage; empty for none
	Inputs []string        `json:"inputs"` // the same, where there are several; then Input is empty
	ID     string          `json:"id"`     // of the job; made when empty
	// NotBefore is when the job may start, at most [jobs.MaxDelay] from now; null or past for at once.
	NotBefore Time   `json:"notBefore"`
	Key       string `json:"-"` // Idempotency-Key: the same submission made again is the same job; empty for none

	// InputsAs stand for the inputs where two submissions are compared. An input without one, or with an empty one, is
	// compared by its name.
	// It is for callers that store inputs themselves: such an input is not looked for.
	InputsAs []string `json:"-"`
}

// Names returns the inputs of either field.
func (s Submission) Names() []string {
	if s.Input != "" {
		return []string{s.Input}
	}
	return s.Inputs
}

// As returns what stands for an input, one of Names, where two submissions are compared, and whether the caller has stored it.
func (s Submission) As(i int) (text string, stored bool) {
	if i < len(s.InputsAs) && s.InputsAs[i] != "" {
		return s.InputsAs[i], true
	}
	return s.Names()[i], false
}

const (
	// maxSubmission has room for parameters of 256 KiB, and for blanks in them.
	maxSubmission = 1 << 20
	// submitTimeout is for a job that is recorded, and its message published.
	submitTimeout = 3 * callTimeout
	// HeaderIdempotencyKey names a submission, so that it can be made again.
	HeaderIdempotencyKey = "Idempotency-Key"
)

// submit queues a job.
func (c *scope) submit(submitter Submitter) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		var s Submission
		if err := httpd.ReadJSON(w, r, maxSubmission, &s, httpd.BodyOptions{Clean: shown}); err != nil {
			return err
		}
		if s.Kind == "" {
			return &FieldError{"kind", "it is empty"}
		}
		if raw := bytes.TrimSpace(s.Params); len(raw) > 0 && raw[0] != '{' {
			return &FieldError{"params", "want an object"}
		}
		if time.Until(s.NotBefore.Time) > jobs.MaxDelay {
			return &FieldError{"notBefore", "want a time within the next 6 days"}
		}
		switch keys := r.Header.Values(HeaderIdempotencyKey); {
		case len(keys) > 1 || len(keys) == 1 && keys[0] == "":
			return &FieldError{HeaderIdempotencyKey, "want one key"}
		case len(keys) == 1 && s.ID != "":
			return &FieldError{"id", "leave it out: Idempotency-Key stands for the id"}
		case len(keys) == 1:
			s.Key = keys[0]
		}
		ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
		defer cancel()
		job, repeated, err := submitter.Submit(ctx, s)
		if err != nil {
			c.server.Metrics.refused(c.Name, err)
			return err
		}
		callOf(r).job, callOf(r).trace = job.ID, job.TraceID
		w.Header().Set("Location", root+c.Name+"/jobs/"+job.ID)
		status := http.StatusCreated
		if repeated {
			status = http.StatusOK
		}
		return answer(w, status, job)
	}
}

// maxResult bounds a result.json: it lists 10 000 files of 128 bytes a name at most.
const maxResult = 8 << 20

// result answers with the result.json of a job.
func (c *scope) result(keeper Keeper) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, _, err := target(r)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
		defer cancel()
		content, a, err := keeper.OpenArtifact(ctx, id, "result.json")
		if errors.Is(err, fs.ErrNotExist) {
			return c.noResult(r, id)
		}
		if err != nil {
			return err
		}
		defer content.Close()
		if a.Bytes > maxResult {
			return &Refusal{Status: http.StatusConflict, Code: CodeConflict, Message: "The result has " + strconv.FormatInt(a.Bytes, 10) + " bytes: read it as artifacts/result.json"}
		}
		text, err := io.ReadAll(io.LimitReader(content, maxResult))
		if err != nil {
			return err
		}
		httpd.WriteJSON(w, http.StatusOK, text)
		return nil
	}
}

// noResult says why a job has no result.
func (c *scope) noResult(r *http.Request, id string) error {
	job, err := c.get(r.Context(), id)
	if err != nil {
		return err
	}
	e := &Refusal{
		Status: http.StatusConflict, Code: CodeConflict, Message: "The job has no result: it " + job.Status.Verb() + " " + job.Status.String(),
		Details: map[string]any{"status": job.Status.String()},
	}
	if job.Status == jobs.Succeeded {
		e.Message = "The result of the job is no longer in the storage"
	}
	return e
}
