package jobapi

import (
	"context"
	"net/http"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

func (c *scope) list(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	page, err := c.Jobs.List(ctx, q)
	if err != nil {
		return err
	}
	if page.Items == nil {
		page.Items = []Item{}
	}
	return answer(w, http.StatusOK, struct {
		Items []Item `json:"items"`
		Next  string `json:"nextCursor,omitempty"`
	}{page.Items, page.Next})
}

// answer answers with v as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	body, err := httpd.EncodeJSON(v)
	if err == nil {
		httpd.WriteJSON(w, status, body)
	}
	return err
}

func query(r *http.Request) (Query, error) {
	p, err := parameters(r, "status", "type", "limit", "cursor")
	if err != nil {
		return Query{}, err
	}
	q := Query{Type: p["type"], Cursor: p["cursor"]}
	if word, ok := p["status"]; ok && q.Status.UnmarshalText([]byte(word)) != nil {
		return q, &FieldError{"status", "want queued, running, succeeded, failed or canceled"}
	}
	q.Limit, err = p.number("limit", 200, 50)
	return q, err
}

// target returns the id of the job in a request's path, and the query, which may have these
// parameters. For what cannot be an id there is no job.
func target(r *http.Request, parameterNames ...string) (id string, p params, err error) {
	job, err := jobs.ParseID(r.PathValue("jobId"))
	if err != nil {
		return "", nil, errNoJob
	}
	p, err = parameters(r, parameterNames...)
	return string(job), p, err
}
