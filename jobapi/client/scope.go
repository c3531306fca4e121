package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// ListMatching is List of the jobs that pass a filter, too. The server looks at some 1000 jobs at a time: a page may be short,
// even empty, while there are others.
func (c *Client) ListMatching(ctx context.Context, scope string, q jobapi.Query, f jobapi.Filter) (jobapi.Page, error) {
	var a struct {
		Items []jobapi.Item `json:"items"`
		Next  string        `json:"nextCursor"`
	}
	if err := c.json(ctx, &request{path: []string{scope, "jobs"}, query: matching(q, f)}, &a); err != nil {
		return jobapi.Page{}, fmt.Errorf("list jobs of %s: %w", scope, err)
	}
	return jobapi.Page{Items: a.Items, Next: a.Next}, nil
}

// matching returns what is to be listed as a query.
func matching(q jobapi.Query, f jobapi.Filter) url.Values {
	query := url.Values{}
	if q.Status != 0 {
		query.Set("status", q.Status.String())
	}
	for name, value := range map[string]string{
		"type": q.Type, "cursor": q.Cursor, "worker": f.Worker, "id_prefix": f.IDPrefix, "error": f.Error, "q": f.Text,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": f.Since, "until": q.Until} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	return query
}

// Why is why a job is as it is.
type Why struct {
	ID      string          `json:"jobId"`
	Status  jobs.State      `json:"status"`
	Reasons []jobapi.Reason `json:"reasons"`
}

// Why returns why a job does not run, or who runs it.
func (c *Client) Why(ctx context.Context, scope, id string) (w Why, err error) {
	err = c.json(ctx, &request{path: []string{scope, "jobs", id, "why"}}, &w)
	if err == nil && w.ID != id {
		err = errBadResponse("it is about another job")
	}
	if err != nil {
		return Why{}, fmt.Errorf("explain job %s: %w", id, err)
	}
	return w, nil
}

// Overview returns the fleet at one look.
func (c *Client) Overview(ctx context.Context) (o jobapi.Overview, err error) {
	if err := c.json(ctx, &request{path: []string{"overview"}}, &o); err != nil {
		return o, fmt.Errorf("get overview: %w", err)
	}
	return o, nil
}

// Kinds returns the kinds of a scope, and how their jobs stand.
func (c *Client) Kinds(ctx context.Context, scope string) ([]jobapi.KindInfo, error) {
	return items[jobapi.KindInfo](ctx, c, "kinds of "+scope, scope, "kinds")
}

// PauseKind pauses a kind of a scope, and returns since when it is paused.
func (c *Client) PauseKind(ctx context.Context, scope, kind string) (jobapi.Time, error) {
	return c.kind(ctx, scope, kind, "pause")
}

// ResumeKind ends a pause.
func (c *Client) ResumeKind(ctx context.Context, scope, kind string) error {
	_, err := c.kind(ctx, scope, kind, "resume")
	return err
}

func (c *Client) kind(ctx context.Context, scope, kind, action string) (jobapi.Time, error) {
	var a struct {
		Kind   string      `json:"kind"`
		Paused jobapi.Time `json:"pausedSince"`
	}
	err := c.json(ctx, &request{method: http.MethodPost, path: []string{scope, "kinds", kind, action}}, &a)
	if err == nil && (a.Kind != kind || a.Paused.IsZero() != (action == "resume")) {
		err = errBadResponse("it does not say what has become of the kind")
	}
	if err != nil {
		return jobapi.Time{}, fmt.Errorf("%s kind %s of %s: %w", action, kind, scope, err)
	}
	return a.Paused, nil
}

// WorkersOf returns the workers of a scope.
func (c *Client) WorkersOf(ctx context.Context, scope string) ([]jobapi.Worker, error) {
	return items[jobapi.Worker](ctx, c, "workers of "+scope, scope, "workers")
}

// ActOnWorker does something to a worker of a scope: drain, resume or revoke it.
func (c *Client) ActOnWorker(ctx context.Context, scope, id, action string) error {
	var a struct {
		ID string `json:"workerId"`
	}
	err := c.json(ctx, &request{method: http.MethodPost, path: []string{scope, "workers", id, action}}, &a)
	if err == nil && a.ID != id {
		err = errBadResponse("it is about another worker")
	}
	if err != nil {
		return fmt.Errorf("%s worker %s: %w", action, id, err)
	}
	return nil
}
