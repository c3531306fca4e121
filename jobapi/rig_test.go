package jobapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// fakeJobs is a Jobs in memory whose jobs are changed by the test. [notifying] tells
// when they change.
type fakeJobs struct {
	mu      sync.Mutex
	all     []jobapi.Job
	logs    map[string][]jobapi.Line
	dropped int
	fails   error
	logFail error          // of Log only
	calls   map[string]int // by method
	worker  bool           // cancels wait for a worker
	changed chan struct{}
	panics  bool
}

func newFakeJobs() *fakeJobs {
	return &fakeJobs{logs: map[string][]jobapi.Line{}, calls: map[string]int{}, changed: make(chan struct{})}
}

var day = time.Date(2026, 1, 23, 9, 0, 0, 0, time.UTC)

// put adds a job, or replaces the one with its id.
func (s *fakeJobs) put(id, kind string, state jobs.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(j jobapi.Job) bool { return j.ID == id })
	if i < 0 {
		scope, _, _ := strings.Cut(kind, ".")
		s.all = append(s.all, jobapi.Job{ID: id, Scope: scope, Type: kind, Version: "0", CreatedAt: jobapi.At(day.Add(time.Duration(len(s.all)) * time.Second)), Request: json.RawMessage(`{}`)})
		i = len(s.all) - 1
	}
	j := &s.all[i]
	j.Status = state
	if state.Terminal() {
		j.FinishedAt = jobapi.At(day.Add(time.Hour))
	}
	n, _ := strconv.Atoi(j.Version)
	j.Version = strconv.Itoa(n + 1)
	s.tellLocked()
}

func (s *fakeJobs) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(j jobapi.Job) bool { return j.ID == id })
	s.tellLocked()
}

func (s *fakeJobs) say(id string, lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range lines {
		s.logs[id] = append(s.logs[id], jobapi.Line{Pos: strconv.Itoa(len(s.logs[id]) + 1), Time: time.Now(), Text: text})
	}
	s.tellLocked()
}

func (s *fakeJobs) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *fakeJobs) failLog(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logFail = err
}

func (s *fakeJobs) tellLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *fakeJobs) called(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

func (s *fakeJobs) enter(method string) error {
	s.calls[method]++
	if s.panics {
		panic("the fake panicked bft_canarycanarycanary")
	}
	return s.fails
}

func (s *fakeJobs) List(_ context.Context, q jobapi.Query) (jobapi.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("List"); err != nil {
		return jobapi.Page{}, err
	}
	var p jobapi.Page
	skip := 0
	if q.Cursor != "" {
		n, err := strconv.Atoi(q.Cursor)
		if err != nil {
			return p, &jobapi.FieldError{Field: "cursor", Problem: "no page had it"}
		}
		skip = n
	}
	for _, j := range slices.Backward(s.all) {
		if q.Status != 0 && j.Status != q.Status || q.Type != "" && j.Type != q.Type {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if len(p.Items) == q.Limit {
			n, _ := strconv.Atoi(cmp.Or(q.Cursor, "0"))
			p.Next = strconv.Itoa(n + q.Limit)
			break
		}
		p.Items = append(p.Items, j.Item())
	}
	return p, nil
}

func (s *fakeJobs) Get(_ context.Context, ids []string) (found []jobapi.Job, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("Get"); err != nil {
		return nil, err
	}
	for _, id := range ids {
		for _, j := range s.all {
			if j.ID == id {
				found = append(found, j)
			}
		}
	}
	return found, nil
}

func (s *fakeJobs) Log(_ context.Context, id string, q jobapi.LogQuery) (jobapi.Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.enter("Log"), s.logFail); err != nil {
		return jobapi.Log{}, err
	}
	if !slices.ContainsFunc(s.all, func(j jobapi.Job) bool { return j.ID == id }) {
		return jobapi.Log{}, fmt.Errorf("log of %s: %w", id, fs.ErrNotExist)
	}
	lines := s.logs[id]
	if !q.Since.IsZero() {
		lines = slices.DeleteFunc(slices.Clone(lines), func(l jobapi.Line) bool { return l.Time.Before(q.Since) })
	}
	if q.After != "" {
		i := slices.IndexFunc(lines, func(l jobapi.Line) bool { return l.Pos == q.After })
		if i < 0 && q.After != jobapi.LogStart {
			return jobapi.Log{}, &jobapi.FieldError{Field: "after", Problem: "no such place"}
		}
		lines = lines[i+1:]
		return jobapi.Log{Lines: slices.Clone(lines[:min(q.Tail, len(lines))]), Dropped: s.dropped}, nil
	}
	return jobapi.Log{Lines: slices.Clone(lines[max(0, len(lines)-q.Tail):]), Dropped: s.dropped}, nil
}

func (s *fakeJobs) Cancel(_ context.Context, id string) (jobapi.Job, error) {
	s.mu.Lock()
	err := s.enter("Cancel")
	i := slices.IndexFunc(s.all, func(j jobapi.Job) bool { return j.ID == id })
	switch {
	case err != nil:
	case i < 0:
		err = fs.ErrNotExist
	case s.all[i].Status.Terminal():
		err = jobapi.ErrEnded
	}
	kind, worker := "", s.worker
	if err == nil {
		kind = s.all[i].Type
	}
	s.mu.Unlock()
	if err != nil {
		return jobapi.Job{}, err
	}
	if !worker {
		s.put(id, kind, jobs.Canceled)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[i], nil
}

// notifying is a fakeJobs that tells when its jobs change.
type notifying struct{ *fakeJobs }

func (n notifying) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// fakeRunner is a fakeJobs whose jobs are made through the API.
type fakeRunner struct {
	notifying
	full error
}

type fakeRequest struct {
	jobapi.Options
	Count   int      `json:"count"`
	Objects []string `json:"objects"`
}

func (r *fakeRequest) Check() error {
	if r.Count < 0 || r.Count > 10 {
		return &jobapi.FieldError{Field: "count", Problem: "want 0 to 10"}
	}
	return nil
}

func (d *fakeRunner) Operations() []string             { return []string{"start", "drain"} }
func (d *fakeRunner) NewRequest(string) jobapi.Request { return &fakeRequest{} }
func (d *fakeRunner) Plan(context.Context, string, jobapi.Request) ([]jobapi.Planned, error) {
	return []jobapi.Planned{{Step: "redis", Action: "skip", Reason: "it answers"}, {Step: "topic", Action: "run", Reason: "makes it"}}, nil
}

func (d *fakeRunner) Create(_ context.Context, op string, _ jobapi.Request) (jobapi.Job, error) {
	if d.full != nil {
		return jobapi.Job{}, d.full
	}
	d.put("job_new", "system."+op, jobs.Queued)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[len(d.all)-1], nil
}

// rig is a server behind a real HTTP server, over connections in memory, so that
// it works in a bubble of synctest.
type rig struct {
	*jobapi.Server
	registry *prometheus.Registry
	client   *http.Client
	logged   *testlog.Buffer
	stop     func() // stops the HTTP server and waits for it
}

// serve runs a server with these scopes until the test ends.
func serve(t *testing.T, s *jobapi.Server) *rig {
	t.Helper()
	g := &rig{Server: s, registry: prometheus.NewRegistry(), logged: &testlog.Buffer{}}
	s.Log = slog.New(slog.NewTextHandler(g.logged, nil))
	s.Metrics = jobapi.NewMetrics(g.registry)
	if s.Guard == nil {
		s.Guard = jobapi.Loopback // what a guard does is tested on its own
	}
	l := testnet.NewPipes()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	handler := s.Handler()
	all.Go(func() { s.Run(ctx) })
	all.Go(func() {
		if err := (&httpd.Server{Handler: handler, Log: s.Log}).Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	transport := &http.Transport{DialContext: l.Dial}
	g.client = &http.Client{Transport: transport}
	g.stop = sync.OnceFunc(func() {
		cancel()
		transport.CloseIdleConnections()
		all.Wait()
	})
	t.Cleanup(g.stop)
	return g
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// failure returns the error of a reply.
func (a reply) failure() jobapi.Error {
	var e struct{ Error jobapi.Error }
	_ = json.Unmarshal([]byte(a.body), &e)
	return e.Error
}

func (a reply) code() string           { return a.failure().Code }
func (a reply) detail(name string) any { return a.failure().Details[name] }

// ask sends "METHOD PATH" with a body and pairs of header names and values. A header Host
// becomes the host of the request.
func (g *rig) ask(t *testing.T, what, body string, header ...string) reply {
	t.Helper()
	resp := g.open(t, what, body, header...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func (g *rig) open(t *testing.T, what, body string, header ...string) *http.Response {
	t.Helper()
	method, path, _ := strings.Cut(what, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	req.Host = req.Header.Get("Host") // of the URL when empty
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return resp
}
