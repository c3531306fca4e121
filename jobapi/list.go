package jobapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

func (c *scope) list(w http.ResponseWriter, r *http.Request) error {
	q, f, whole, err := c.query(r)
	if err != nil {
		return err
	}
	return c.server.shared.answer(w, r, func(ctx context.Context) (any, error) {
		found, err := Select(ctx, c.Jobs, q, f, whole)
		if err != nil {
			return nil, err
		}
		var listed any = found.Items
		switch {
		case len(found.Items) == 0:
			listed = []Item{}
		case whole:
			listed = found.Jobs
		}
		return struct {
			Items any    `json:"items"`
			Next  string `json:"nextCursor,omitempty"`
		}{listed, found.Next}, nil
	})
}

// answer answers with v as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	body, err := httpd.EncodeJSON(v)
	if err == nil {
		httpd.WriteJSON(w, status, body)
	}
	return err
}

// maxQuery is the longest q of a list, in characters.
const maxQuery = 200

var (
	kindForm        = jobs.Form(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	idPrefixForm    = jobs.Form(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	fingerprintForm = jobs.Form(`^[0-9a-f]{16}$`)
)

var (
	errStatus = &FieldError{"status", "want queued, running, succeeded, failed or canceled"}
	errKind   = &FieldError{"kind", "want the name of a kind, such as pdf"}
)

// query returns what a list is asked for, and whether whole jobs are wanted.
func (c *scope) query(r *http.Request) (q Query, f Filter, whole bool, err error) {
	p, err := parameters(r, "status", "type", "kind", "worker", "id_prefix", "error", "since", "until", "q", "full", "limit", "cursor")
	if err != nil {
		return q, f, false, err
	}
	q = Query{Type: p["type"], Cursor: p["cursor"]}
	if word, ok := p["status"]; ok && q.Status.UnmarshalText([]byte(word)) != nil {
		return q, f, false, errStatus
	}
	if kind, ok := p["kind"]; ok {
		switch {
		case !kindForm().MatchString(kind):
			return q, f, false, errKind
		case q.Type != "":
			return q, f, false, &FieldError{"kind", "leave it out, or type: they say the same"}
		}
		q.Type = c.Name + "." + kind
	}
	if f, q.Until, err = p.filter(time.Now()); err != nil {
		return q, f, false, err
	}
	if whole, _, err = p.truth("full"); err != nil {
		return q, f, false, err
	}
	q.Limit, err = p.number("limit", 200, 50)
	return q, f, whole, err
}

// filter returns the filter of a query, and before when the jobs were created.
func (p params) filter(now time.Time) (f Filter, until time.Time, err error) {
	return ParseFilter(func(name string) string { return p[name] }, now)
}

// ParseFilter reads the fields worker, id_prefix, error, since, until and q of a filter, each empty for any. since and until
// are RFC 3339, or how long before now, such as 24h or 7d. The error is a [FieldError].
func ParseFilter(field func(name string) string, now time.Time) (f Filter, until time.Time, err error) {
	f = Filter{Worker: field("worker"), IDPrefix: field("id_prefix"), Error: field("error"), Text: field("q")}
	switch {
	case len(f.Worker) > 256:
		return f, until, &FieldError{"worker", "want at most 256 bytes"}
	case f.IDPrefix != "" && !idPrefixForm().MatchString(f.IDPrefix):
		return f, until, &FieldError{"id_prefix", "want the beginning of an id: letters, digits, '.', '_' and '-'"}
	case f.Error != "" && !fingerprintForm().MatchString(f.Error):
		return f, until, &FieldError{"error", "want the fingerprint of an error: 16 hexadecimal digits"}
	case utf8.RuneCountInString(f.Text) > maxQuery:
		return f, until, &FieldError{"q", "want at most 200 characters"}
	}
	if f.Since, err = parseMoment("since", field("since"), now); err != nil {
		return f, until, err
	}
	until, err = parseMoment("until", field("until"), now)
	return f, until, err
}

// maxAgo is how long ago since and until may be.
const maxAgo = 10 * 365 * 24 * time.Hour

// parseMoment reads a time, or how long before now it is. It is zero if there is none.
func parseMoment(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		ago = time.Duration(min(n, 1<<15)) * 24 * time.Hour
	}
	if err != nil || ago < 0 || ago > maxAgo {
		return time.Time{}, &FieldError{name, "want a time such as 2026-01-23T09:00:00Z, or how long ago, such as 90m, 24h or 7d"}
	}
	return now.Add(-ago), nil
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
