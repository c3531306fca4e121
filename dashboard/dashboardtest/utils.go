package dashboardtest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Utils is the scope utils of a fleet: its operations are recorded, and do nothing.
type Utils struct{ jobs *Fleet }

// List implements [jobapi.Jobs].
func (u *Utils) List(ctx context.Context, q jobapi.Query) (jobapi.Page, error) {
	return u.jobs.List(ctx, q)
}

// Get implements [jobapi.Jobs].
func (u *Utils) Get(ctx context.Context, ids []string) ([]jobapi.Job, error) {
	return u.jobs.Get(ctx, ids)
}

// Log implements [jobapi.Jobs].
func (u *Utils) Log(ctx context.Context, id string, q jobapi.LogQuery) (jobapi.Log, error) {
	return u.jobs.Log(ctx, id, q)
}

// Cancel implements [jobapi.Jobs].
func (u *Utils) Cancel(ctx context.Context, id string) (jobapi.Job, error) {
	return u.jobs.Cancel(ctx, id)
}

// Changed implements [jobapi.Notifier].
func (u *Utils) Changed() <-chan struct{} { return u.jobs.Changed() }

// Done returns what was asked for, oldest first: an operation and its request.
func (u *Utils) Done() []string { return u.jobs.Done() }

// Request is a request of any operation, as it was sent.
type Request struct {
	jobapi.Options
	Fields map[string]json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps all fields.
func (r *Request) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &r.Fields); err != nil {
		return err
	}
	return json.Unmarshal(text, &r.Options)
}

// Check implements [jobapi.Request].
func (r *Request) Check() error {
	var days int
	if text, ok := r.Fields["olderThanDays"]; ok && (json.Unmarshal(text, &days) != nil || days < 1) {
		return &jobapi.FieldError{Field: "olderThanDays", Problem: "want 1 to 3650"}
	}
	return nil
}

// Operations implements [jobapi.Runner].
func (*Utils) Operations() []string {
	return []string{"cancel", "purge", "redrive", "retry", "submit-batch"}
}

// NewRequest implements [jobapi.Runner].
func (*Utils) NewRequest(string) jobapi.Request { return &Request{} }

// Create implements [jobapi.Runner].
func (u *Utils) Create(_ context.Context, operation string, r jobapi.Request) (jobapi.Job, error) {
	text, err := json.Marshal(r.(*Request).Fields)
	if err != nil {
		return jobapi.Job{}, err
	}
	f := u.jobs
	f.mu.Lock()
	defer f.mu.Unlock()
	j := jobapi.Job{
		ID: fmt.Sprintf("job_%026d", len(f.all)+1), Type: "utils." + operation, Status: jobs.Running, CreatedAt: jobapi.At(time.Now()), StartedAt: jobapi.At(time.Now()), Request: text,
		Steps: []jobapi.Step{{Name: operation, Status: jobapi.Running, StartedAt: jobapi.At(time.Now())}}, Progress: jobapi.Progress{Current: 1, Total: 1},
	}
	f.put(j)
	f.done = append(f.done, operation+" "+string(text))
	return *f.find(j.ID), nil
}

// Plan implements [jobapi.Runner].
func (*Utils) Plan(_ context.Context, operation string, _ jobapi.Request) ([]jobapi.Planned, error) {
	return []jobapi.Planned{{Step: operation, Action: "run", Reason: "12 jobs match"}}, nil
}
