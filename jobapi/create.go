package jobapi

import (
	"context"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// maxCreateBody has room for 1000 names of 1024 bytes, each of two bytes of
	// UTF-8 that a JSON library may write as six.
	maxCreateBody = 4 << 20
	// planTimeout is for a plan, which may ask several services one after the other.
	planTimeout = 30 * time.Second
)

// create returns the handler that makes a job of an operation, or a plan of one.
func (c *scope) create(runner Runner, op string) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		req, err := readRequest(w, r, runner.NewRequest(op))
		if err != nil {
			return err
		}
		if req.Common().DryRun {
			callOf(r).changes = false
			return c.plan(w, r, runner, op, req)
		}
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		job, err := runner.Create(ctx, op, req)
		if err != nil {
			c.server.Metrics.refused(c.Name, err)
			return err
		}
		callOf(r).job = job.ID
		w.Header().Set("Location", root+c.Name+"/jobs/"+job.ID)
		return answer(w, http.StatusAccepted, struct {
			ID        string     `json:"jobId"`
			Scope     string     `json:"scope"`
			Type      string     `json:"type"`
			Status    jobs.State `json:"status"`
			CreatedAt Time       `json:"createdAt"`
		}{job.ID, job.Scope, job.Type, job.Status, job.CreatedAt})
	}
}

func (c *scope) plan(w http.ResponseWriter, r *http.Request, runner Runner, op string, req Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), planTimeout)
	defer cancel()
	steps, err := runner.Plan(ctx, op, req)
	if err != nil {
		return err
	}
	if steps == nil {
		steps = []Planned{}
	}
	return answer(w, http.StatusOK, struct {
		DryRun bool      `json:"dryRun"`
		Scope  string    `json:"scope"`
		Type   string    `json:"type"`
		Steps  []Planned `json:"steps"`
	}{true, c.Name, c.Name + "." + op, steps})
}

// readRequest fills a request from the query and the body, and checks it.
func readRequest(w http.ResponseWriter, r *http.Request, req Request) (Request, error) {
	p, err := parameters(r, "dryRun")
	if err != nil {
		return nil, err
	}
	dry, given, err := p.truth("dryRun")
	if err != nil {
		return nil, err
	}
	common := req.Common()
	common.DryRun = dry // unless the body has another value
	if err := httpd.ReadJSON(w, r, maxCreateBody, req, httpd.BodyOptions{AllowEmpty: true, Clean: shown}); err != nil {
		return nil, err
	}
	if given && common.DryRun != dry {
		return nil, &FieldError{"dryRun", "the query and the body do not say the same"}
	}
	if ms := common.TimeoutMs; ms != nil && (*ms < MinTimeout.Milliseconds() || *ms > MaxTimeout.Milliseconds()) {
		return nil, &FieldError{"timeoutMs", "want 1000 to 86400000 (a day)"}
	}
	if err := req.Check(); err != nil {
		return nil, err
	}
	return req, nil
}
