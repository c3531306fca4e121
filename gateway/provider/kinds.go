package provider

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Kinds serves the jobs of the kinds beside zpe to the Job API, as a ZPE does, and takes new ones.
type Kinds struct {
	*ZPE

	// Give queues a job, as [control.Control.SubmitKind] does.
	Give func(ctx context.Context, kind jobs.Kind, req wire.SubmitRequest, key string) (id jobs.ID, again bool, err error)
}

var _ jobapi.Submitter = (*Kinds)(nil)

// Submit implements [jobapi.Submitter]. The inputs are names of uploads, as the gateway has answered them.
func (k *Kinds) Submit(ctx context.Context, s jobapi.Submission) (jobapi.Job, bool, error) {
	if s.ID != "" {
		return jobapi.Job{}, false, &jobapi.FieldError{Field: "id", Problem: "a gateway makes the ids of its jobs: leave it out, and give " + jobapi.HeaderIdempotencyKey + " to name a submission"}
	}
	if !s.NotBefore.IsZero() {
		return jobapi.Job{}, false, &jobapi.FieldError{Field: "notBefore", Problem: "a gateway's jobs start as soon as a worker is free: leave it out, or give the job to the fleet"}
	}
	id, again, err := k.Give(ctx, jobs.Kind(s.Kind), wire.SubmitRequest{Params: s.Params, Input: s.Input, Inputs: s.Inputs}, s.Key)
	if err != nil {
		return jobapi.Job{}, false, notGiven(err)
	}
	j, err := k.one(ctx, string(id))
	if err != nil { // it is queued all the same
		j = jobapi.Job{ID: string(id), Scope: othersScope, Type: othersType + s.Kind, Status: jobs.Queued, CreatedAt: jobapi.At(time.Now()), Request: json.RawMessage("{}")}
	}
	return j, again, nil
}

// notGiven translates an error of Give for a caller of the Job API.
func notGiven(err error) error {
	refused, field := control.Refused(err)
	switch {
	case refused == nil, refused.Code == wire.Unavailable:
		return notDone(err)
	case refused.Code == wire.NotFound:
		return &jobapi.FieldError{Field: "kind", Problem: refused.Message}
	case refused.Code == wire.IdempotencyReused:
		return &jobapi.Refusal{
			Status: http.StatusConflict, Code: jobapi.CodeConflict, Message: "This idempotency key was used for a job with other parameters or with another input",
			Details: map[string]any{"field": jobapi.HeaderIdempotencyKey},
		}
	case refused.Status == http.StatusBadRequest:
		text := refused.Message
		for _, begins := range []string{"Invalid field " + field + ": ", "Invalid header " + field + ": "} {
			if problem, ok := strings.CutPrefix(text, begins); ok {
				return &jobapi.FieldError{Field: field, Problem: problem}
			}
		}
		return &jobapi.Refusal{
			Status: http.StatusBadRequest, Code: jobapi.CodeInvalidArgument, Message: jobapi.ShownText(text, wire.MaxErrorMessage),
			Details: map[string]any{"field": jobapi.ShownText(field, 200)},
		}
	}
	return &jobapi.Refusal{Status: refused.Status, Code: jobapi.CodeUnavailable, Message: refused.Message, RetryAfter: refused.RetryAfter}
}
