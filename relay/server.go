package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
)

const (
	healthPath = "/healthz"
	maxWait    = 30 * time.Second // of a request that waits for a change
	maxWaiting = 1000             // such requests; each change of any task wakes all of them
	maxList    = 200
)

// server answers the routes of SPEC.md.
type server struct {
	relay    *Relay
	throttle httpd.Throttle
	waiting  atomic.Int64 // requests that wait for a change
}

// Handler returns the handler of all routes of the contract. It answers unknown paths, too.
func (r *Relay) Handler() http.Handler {
	s := &server{relay: r}
	api := &httpd.API{Log: r.Log, WriteError: s.writeError, Admit: r.admit, Done: func(req *http.Request, status int, _ time.Duration) {
		route := cmp.Or(req.Pattern, "none")
		r.Metrics.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	}}
	api.Handle("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	})
	api.Handle("POST /v1/tasks", s.create)
	api.Handle("GET /v1/tasks", s.list)
	api.Handle("GET /v1/tasks/{id}", ofTask(s.get))
	api.Handle("GET /v1/tasks/{id}/artifacts/{name}", ofTask(s.artifact))
	api.Handle("POST /v1/tasks/{id}/callback", ofTask(s.callback))
	api.Handle("POST /v1/tasks/{id}/cancel", ofTask(s.cancel))
	api.Handle("POST /v1/tasks/{id}/retry-upload", ofTask(s.retryUpload))
	api.Handle("GET /v1/status", s.status)
	api.Handle("POST /v1/gc", s.collect)
	return api
}

func answer(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	httpd.WriteJSON(w, status, append(body, '\n'))
	return nil
}

// ofTask is the handler of a route with the id of a task.
func ofTask(handle func(w http.ResponseWriter, r *http.Request, id jobs.ID) error) httpd.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := r.PathValue("id")
		if !isID(id) {
			return fmt.Errorf("task: %w", fs.ErrNotExist)
		}
		return handle(w, r, jobs.ID(id))
	}
}

// get answers with a task, after its next change if the caller prefers to wait for it.
func (s *server) get(w http.ResponseWriter, r *http.Request, id jobs.ID) error {
	wait := preferredWait(r)
	if wait > 0 {
		if s.waiting.Add(1) > maxWaiting {
			wait = 0
		}
		defer s.waiting.Add(-1)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	first := ""
	for {
		changed := s.relay.tasks.Changed()
		t, err := s.relay.tasks.Get(id)
		if err != nil {
			return err
		}
		body, err := json.Marshal(t.view())
		if err != nil {
			return err
		}
		tag := `"` + hashOf(string(body))[:32] + `"`
		// Who has a version waits for another one; who has none, for a change.
		if first == "" {
			first = cmp.Or(r.Header.Get("If-None-Match"), tag)
		}
		stopped := t.State.Terminal() || ctx.Err() != nil
		if tag == first && !stopped {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
			case <-httpd.Stopping(r.Context()):
			}
		}
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		httpd.WriteJSON(w, http.StatusOK, append(body, '\n'))
		return nil
	}
}

// preferredWait reads Prefer: wait=N (RFC 7240). It returns 0 for none.
func preferredWait(r *http.Request) time.Duration {
	for _, header := range r.Header.Values("Prefer") {
		for one := range strings.SplitSeq(header, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
			seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
			if strings.EqualFold(strings.TrimSpace(name), "wait") && err == nil {
				return min(time.Duration(seconds)*time.Second, maxWait) //nolint:gosec // of 31 bits
			}
		}
	}
	return 0
}

// list answers with tasks, the newest first.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("query", "it is not encoded as a query is")
	}
	var want State
	limit := 50
	for name, values := range q {
		if !slices.Contains([]string{"status", "kind", "job_id", "limit", "cursor"}, name) || len(values) != 1 {
			return invalid(jobs.Clip(jobs.VisibleLine(name), 40, "…"), "want each of status, kind, job_id, limit and cursor at most once")
		}
	}
	if text := q.Get("status"); text != "" && want.UnmarshalText([]byte(text)) != nil {
		return invalid("status", "want one of "+strings.Join(stateWords[1:], ", "))
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxList {
			return invalid("limit", fmt.Sprintf("want a whole number from 1 to %d", maxList))
		}
		limit = n
	}
	cursor := q.Get("cursor")
	if cursor != "" && !isID(cursor) {
		return invalid("cursor", "want next_cursor of an earlier answer")
	}
	kind, job := q.Get("kind"), q.Get("job_id")
	tasks, next := s.relay.tasks.page(cursor, time.Time{}, limit, func(t *Task) bool {
		return (want == 0 || t.State == want) && (kind == "" || string(t.Kind) == kind) && (job == "" || t.JobID == job)
	})
	views := make([]view, len(tasks))
	for i, t := range tasks {
		views[i] = t.view()
	}
	return answer(w, http.StatusOK, struct {
		Tasks []view `json:"tasks"`
		Next  string `json:"next_cursor"`
	}{views, next})
}

// page returns at most limit tasks that are wanted, the newest first, and the cursor of the next page, empty for the last. Until is as for newest.
func (ts *Tasks) page(cursor string, until time.Time, limit int, want func(*Task) bool) (tasks []*Task, next string) {
	ts.newest(jobs.ID(cursor), until, func(t *Task) bool {
		switch {
		case !want(t):
		case len(tasks) == limit:
			next = string(tasks[limit-1].ID)
			return false
		default:
			tasks = append(tasks, t)
		}
		return true
	})
	return tasks, next
}

// callback registers where the events of a task go.
func (s *server) callback(w http.ResponseWriter, r *http.Request, id jobs.ID) error {
	var body struct {
		URL    string    `json:"callback_url" required:"true"`
		Events *[]string `json:"events"`
	}
	if err := httpd.ReadJSON(w, r, maxBody, &body, httpd.BodyOptions{}); err != nil {
		return err
	}
	events := slices.Clone(allEvents)
	if body.Events != nil {
		events = *body.Events
	}
	if len(events) == 0 || len(events) > len(stateWords) {
		return invalid("events", fmt.Sprintf("want 1 to %d events, or none of this field for all", len(stateWords)))
	}
	for i, event := range events {
		if !slices.Contains(allEvents, event) && event != eventProgress || slices.Contains(events[:i], event) {
			return invalid(fmt.Sprintf("events[%d]", i), "want different events of "+strings.Join(allEvents, ", ")+", "+eventProgress)
		}
	}
	if err := s.relay.callbacks.check(body.URL); err != nil {
		return invalid("callback_url", err.Error())
	}
	if err := s.relay.callbacks.register(id, Callback{URL: body.URL, Events: events}); err != nil {
		return err
	}
	return answer(w, http.StatusOK, struct {
		ID     jobs.ID  `json:"task_id"`
		URL    string   `json:"callback_url"`
		Events []string `json:"events"`
	}{id, body.URL, events})
}

// cancel asks for a task to be stopped.
func (s *server) cancel(w http.ResponseWriter, _ *http.Request, id jobs.ID) error {
	t, err := s.relay.status.Cancel(id)
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if t.State == Canceled {
		status = http.StatusOK
	}
	return answer(w, status, t.view())
}

// retryUpload has a task uploaded again.
func (s *server) retryUpload(w http.ResponseWriter, _ *http.Request, id jobs.ID) error {
	t, err := s.relay.retryUpload(id)
	if err != nil {
		return err
	}
	return answer(w, http.StatusAccepted, t.view())
}
