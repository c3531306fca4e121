package jobapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/trace"
)

// call is what the log needs to know of a request. It is in the request's context.
type call struct {
	who     string // the name of its token, or loopback; empty when it is not known
	changes bool   // it was allowed, and changes something
	job     string // that it has made or found
	trace   string // the id of that job's trace
	kind    string // that it has paused or resumed
	worker  string // that it has drained, resumed or revoked
}

type callKey struct{}

func withCall(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, &call{})
}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// answered counts a request, once it is answered, and logs who has changed what. Fields
// of the request are not logged: any may hold a secret.
func (s *Server) answered(r *http.Request, status int, _ time.Duration) {
	s.Metrics.answered(r, status)
	c := callOf(r)
	if !c.changes {
		return
	}
	path := strings.Split(r.Pattern, "/") // POST /api/v1/SCOPE/OPERATION, …/jobs/{jobId}/cancel or …/jobs
	operation := path[len(path)-1]
	switch operation {
	case "jobs":
		operation = "submit"
	case "inputs":
		operation = "upload"
	}
	attrs := []slog.Attr{
		slog.String("route", r.Pattern), slog.String("scope", path[3]), slog.String("operation", operation),
		slog.String("token", c.who), slog.String("request_id", httpd.RequestID(r.Context())), slog.Int("status", status),
	}
	for _, of := range [][2]string{{"job", c.job}, {"kind", c.kind}, {"worker_id", c.worker}} {
		if of[1] != "" {
			attrs = append(attrs, slog.String(of[0], of[1]))
		}
	}
	s.changes.add(Change{
		Token: c.who, Route: r.Pattern, Scope: path[3], Operation: operation, Job: c.job, Kind: c.kind, Worker: c.worker,
		Status: status, RequestID: httpd.RequestID(r.Context()),
	})
	if c.trace != "" && trace.Of(r.Context()) == "" { // else the line has it anyway
		attrs = append(attrs, slog.String(trace.LogKey, c.trace))
	}
	s.Log.LogAttrs(r.Context(), slog.LevelInfo, "change asked for", attrs...)
}
