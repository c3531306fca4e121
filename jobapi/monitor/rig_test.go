package monitor_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobapi/monitor"
	"github.com/batchfleet/batchfleet/jobs"
)

// plain is a Jobs in memory, which is changed by the test.
type plain struct {
	mu    sync.Mutex
	all   map[string]*jobapi.Job
	calls map[string]int
	fails error
	hangs bool // until the call's context ends
}

func newPlain() *plain { return &plain{all: map[string]*jobapi.Job{}, calls: map[string]int{}} }

// enter counts a call, and fails or hangs if it is to.
func (p *plain) enter(ctx context.Context, method string) error {
	p.mu.Lock()
	p.calls[method]++
	fails, hangs := p.fails, p.hangs
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return fails
}

func (p *plain) set(fails error, hangs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails, p.hangs = fails, hangs
}

// took returns how many calls of these methods there were since the last time.
func (p *plain) took(methods ...string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range methods {
		n += p.calls[m]
		p.calls[m] = 0
	}
	return n
}

func (p *plain) put(id, jobType string, state jobs.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := jobapi.At(time.Now())
	j := p.all[id]
	if j == nil {
		scope, _, _ := strings.Cut(jobType, ".")
		j = &jobapi.Job{ID: id, Scope: scope, Type: jobType, CreatedAt: now, Request: json.RawMessage(`{}`)}
		p.all[id] = j
	}
	c := *j
	c.Status = state
	if state != jobs.Queued && c.StartedAt.IsZero() {
		c.StartedAt, c.Attempt = now, 1
	}
	if state.Terminal() {
		c.FinishedAt = now
	}
	if state == jobs.Failed {
		c.Error = &jobapi.Error{Code: "FAILED", Message: "page 17 of \"" + id + "\" is <b>broken</b>"}
	}
	p.all[id] = &c
}

func (p *plain) List(ctx context.Context, q jobapi.Query) (page jobapi.Page, err error) {
	if err := p.enter(ctx, "List"); err != nil {
		return page, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.all {
		if (q.Status == 0 || j.Status == q.Status) && (q.Type == "" || j.Type == q.Type) {
			page.Items = append(page.Items, j.Item())
		}
	}
	slices.SortFunc(page.Items, func(a, b jobapi.Item) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt.Time), strings.Compare(b.ID, a.ID))
	})
	page.Items = page.Items[:min(len(page.Items), q.Limit)]
	return page, nil
}

func (p *plain) Get(ctx context.Context, ids []string) (found []jobapi.Job, err error) {
	if err := p.enter(ctx, "Get"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if j := p.all[id]; j != nil {
			found = append(found, *j)
		}
	}
	return found, nil
}

func (p *plain) Log(context.Context, string, jobapi.LogQuery) (jobapi.Log, error) {
	return jobapi.Log{}, nil
}

func (p *plain) Cancel(_ context.Context, id string) (jobapi.Job, error) {
	return jobapi.Job{}, jobapi.NoJob(id)
}

// notifying is a plain that tells when something changes, but not what.
type notifying struct {
	*plain
	told *jobapi.Changes
}

func (n notifying) put(id, jobType string, state jobs.State) {
	n.plain.put(id, jobType, state)
	n.told.Wake()
}

func (n notifying) Changed() <-chan struct{} { return n.told.Changed() }

// fleet is a plain that can all that an overview asks for.
type fleet struct {
	*plain
	told  jobapi.Changes
	tally jobapi.Tally

	states  sync.Mutex
	workers []jobapi.Worker
	paused  []jobapi.Paused
	dead    int
}

func newFleet() *fleet { return &fleet{plain: newPlain(), dead: -1} }

func (f *fleet) put(id, jobType string, state jobs.State) {
	f.mu.Lock()
	var was jobs.State
	if j := f.all[id]; j != nil {
		was = j.Status
	}
	f.mu.Unlock()
	f.plain.put(id, jobType, state)
	_, kind, _ := strings.Cut(jobType, ".")
	f.tally.Move(time.Now(), kind, was, state)
	f.told.Add(id)
}

func (f *fleet) Count(ctx context.Context) (jobapi.Counts, error) {
	if err := f.enter(ctx, "Count"); err != nil {
		return jobapi.Counts{}, err
	}
	c := f.tally.Counts(func(string) time.Time { return time.Now().Add(-time.Minute) })
	c.DeadLetters = f.dead
	return c, nil
}

func (f *fleet) Changes(ctx context.Context, after string) ([]string, string, bool, error) {
	f.mu.Lock()
	fails := f.fails
	f.mu.Unlock()
	if fails != nil {
		return nil, after, false, fails
	}
	return f.told.Changes(ctx, after)
}

func (f *fleet) Workers(ctx context.Context) ([]jobapi.Worker, error) {
	err := f.enter(ctx, "Workers")
	f.states.Lock()
	defer f.states.Unlock()
	return f.workers, err
}

func (f *fleet) Paused(ctx context.Context) ([]jobapi.Paused, error) {
	err := f.enter(ctx, "Paused")
	f.states.Lock()
	defer f.states.Unlock()
	return f.paused, err
}

func (f *fleet) Pause(_ context.Context, kind string) error {
	f.states.Lock()
	defer f.states.Unlock()
	f.paused = []jobapi.Paused{{Kind: kind, Since: jobapi.At(time.Now())}}
	return nil
}

func (f *fleet) Resume(context.Context, string) error {
	f.states.Lock()
	defer f.states.Unlock()
	f.paused = nil
	return nil
}

func (f *fleet) Kinds(ctx context.Context) ([]jobapi.Kind, error) {
	return []jobapi.Kind{{Name: "pdf", Input: "one", Params: json.RawMessage(`null`)}}, f.enter(ctx, "Kinds")
}

func (f *fleet) employ(workers ...jobapi.Worker) {
	f.states.Lock()
	defer f.states.Unlock()
	f.workers = workers
}

// rig is a server behind a real HTTP server, over connections in memory.
type rig struct {
	*jobapi.Server
	registry *prometheus.Registry
	client   *http.Client
	logged   *testlog.Buffer
	stop     func()
}

// serve runs a server with these scopes until the test ends.
func serve(t *testing.T, s *jobapi.Server) *rig {
	t.Helper()
	g := &rig{Server: s, registry: prometheus.NewRegistry(), logged: &testlog.Buffer{}}
	s.Log = slog.New(slog.NewTextHandler(g.logged, nil))
	s.Metrics = jobapi.NewMetrics(g.registry)
	if s.Guard == nil {
		s.Guard = jobapi.Loopback
	}
	s.Watch = monitor.New(s)
	l := testnet.NewPipes()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	handler := s.Handler()
	all.Go(func() { s.Run(ctx) })
	all.Go(func() {
		if err := (&httpd.Server{Handler: handler, Log: s.Log, MaxConns: 20_000}).Serve(ctx, l); err != nil {
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

// of returns a server of scopes by their names: "fleet", jobs, …
func of(scopes ...any) *jobapi.Server {
	s := &jobapi.Server{}
	for i := 0; i < len(scopes); i += 2 {
		s.Scopes = append(s.Scopes, jobapi.Scope{Name: scopes[i].(string), Jobs: scopes[i+1].(jobapi.Jobs), Cancel: access.Operate, Create: access.Operate})
	}
	return s
}

func (g *rig) open(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/api/v1/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

func (g *rig) ask(t *testing.T, method, path string) (status int, body string) {
	t.Helper()
	resp := g.open(t, method, path)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (g *rig) overview(t *testing.T) (o jobapi.Overview) {
	t.Helper()
	status, body := g.ask(t, http.MethodGet, "overview")
	if err := json.Unmarshal([]byte(body), &o); err != nil || status != 200 {
		t.Fatalf("overview: %d %s", status, body)
	}
	return o
}

// events is a stream that is read all the time.
type events struct {
	resp *http.Response
	mu   sync.Mutex
	all  []event
	more chan struct{} // closed when there is one more
}

// event is an event in words: "reset", "ID STATUS", ":" for a comment, "closed" at the end.
type event struct{ word, id string }

func (g *rig) follow(t *testing.T, query string, header ...string) *events {
	t.Helper()
	resp := g.open(t, http.MethodGet, "events"+query, header...) //nolint:bodyclose // the stream closes it
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("events%s: %s", query, resp.Status)
	}
	e := &events{resp: resp, more: make(chan struct{})}
	t.Cleanup(e.close)
	go e.read()
	return e
}

func (e *events) close() { _ = e.resp.Body.Close() }

func (e *events) read() {
	in := bufio.NewScanner(e.resp.Body)
	var now event
	for in.Scan() {
		field, value, _ := strings.Cut(in.Text(), ":")
		value = strings.TrimSpace(value)
		switch field {
		case "id":
			now.id = value
		case "event":
			now.word = value
		case "data":
			if now.word == "job" {
				var i jobapi.Item
				_ = json.Unmarshal([]byte(value), &i)
				now.word = i.ID + " " + i.Status.String()
			}
			e.add(now)
		default:
			if strings.HasPrefix(in.Text(), ":") {
				e.add(event{":", now.id})
			}
		}
	}
	e.add(event{"closed", now.id})
}

func (e *events) add(one event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
	close(e.more)
	e.more = make(chan struct{})
}

// next returns the next event.
func (e *events) next() event {
	for {
		e.mu.Lock()
		if len(e.all) > 0 {
			one := e.all[0]
			e.all = e.all[1:]
			e.mu.Unlock()
			return one
		}
		more := e.more
		e.mu.Unlock()
		<-more
	}
}

// want reads events, without comments, that must be these, and returns the id of the last. Several resets count as one.
func (e *events) want(t *testing.T, want ...string) (id string) {
	t.Helper()
	last := ""
	for _, w := range want {
		got := e.next()
		for got.word == ":" || got.word == "reset" && last == "reset" {
			got = e.next()
		}
		if got.word != w {
			t.Fatalf("got %q, want %q of %q", got.word, w, want)
		}
		last, id = got.word, got.id
	}
	return id
}
