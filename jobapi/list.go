package jobapi

import (
	"net/http"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

func (c *scope) list(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r)
	if err != nil {
		return err
	}
	ctx, cancel := c.server.deadline(r.Context())
	defer cancel()
	page, err := c.Jobs.List(ctx, q)
	if err != nil {
		return err
	}
	if page.Items == nil {
		page.Items = []Item{}
	}
	body, err := httpd.EncodeJSON(struct {
		Items []Item `json:"items"`
		Next  string `json:"nextCursor,omitempty"`
	}{page.Items, page.Next})
	if err != nil {
		return err
	}
	httpd.WriteJSON(w, http.StatusOK, body)
	return nil
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

// jobID returns the id in a request's path. For what cannot be an id there is no job.
func jobID(r *http.Request) (string, error) {
	id, err := jobs.ParseID(r.PathValue("jobId"))
	if err != nil {
		return "", errNoJob
	}
	return string(id), nil
}
