package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/retry"
)

// sent is a request that a server of a test has got.
type sent struct {
	Method, URI string
	Header      http.Header
	Length      int64
	Body        string
	Err         error // why the body did not come to its end
}

// party is a server that the relay calls. It keeps what it was sent.
type party struct {
	*httptest.Server
	mu  sync.Mutex
	got []sent
}

// newParty starts a server. It reads each request, and answers the nth, from 1, as answer does; with 200 if that is nil.
func newParty(t *testing.T, answer func(n int, w http.ResponseWriter, r sent)) *party {
	t.Helper()
	p := &party{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		one := sent{r.Method, r.RequestURI, r.Header, r.ContentLength, string(body), err}
		p.mu.Lock()
		p.got = append(p.got, one)
		n := len(p.got)
		p.mu.Unlock()
		if answer != nil {
			answer(n, w, one)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// all returns what was sent so far.
func (p *party) all() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// whole returns the requests that have come to their end.
func (p *party) whole() []sent {
	return slices.DeleteFunc(p.all(), func(s sent) bool { return s.Err != nil })
}

// answers answers the first requests with a status each, and the others with 200.
func answers(codes ...int) func(int, http.ResponseWriter, sent) {
	return func(n int, w http.ResponseWriter, _ sent) {
		if n <= len(codes) {
			w.WriteHeader(codes[n-1])
		}
	}
}

// local allows what a server of a test is reached by.
func local(servers ...*httptest.Server) egress.Policy {
	p := egress.Policy{Hosts: []string{"127.0.0.1"}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	for _, s := range servers {
		p.Ports = append(p.Ports, s.Listener.Addr().(*net.TCPAddr).AddrPort().Port()) //nolint:forcetypeassert // it listens on TCP
	}
	return p
}

func parseURL(tb testing.TB, raw string) *url.URL {
	tb.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// to makes the relay send artifacts to an orchestrator.
func (r *rig) to(base string) *rig {
	r.t.Helper()
	r.Orchestrator = parseURL(r.t, base)
	return r
}

// soon makes the relay try again at once.
func (r *rig) soon() *rig {
	r.uploads.Retry = retry.Policy{First: time.Millisecond, Max: time.Millisecond}
	r.callbacks.Retry = r.uploads.Retry
	return r
}

// queued makes a task; its events go to a callback, if it is not empty.
func (r *rig) queued(callback string) jobs.ID {
	r.t.Helper()
	body := request{JobID: "job_123", Kind: "music"}
	if callback != "" {
		body.CallbackURL = &callback
	}
	t, _, err := r.Relay.create(&body, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return t.ID
}

// claim begins an attempt.
func (r *rig) claim(id jobs.ID) jobs.Claim {
	r.t.Helper()
	c, err := r.status.Claim(r.t.Context(), jobs.Job{ID: id}, time.Hour, jobs.Claim{})
	if err != nil || c.Verdict != jobs.Granted {
		r.t.Fatalf("claim: %+v, %v", c, err)
	}
	return c
}

// made ends the attempt at a task, whose program has made these files.
func (r *rig) made(c jobs.Claim, files map[string]string) {
	r.t.Helper()
	var result artifact.Result
	for _, name := range slices.Sorted(maps.Keys(files)) {
		result.Artifacts = append(result.Artifacts, r.put(c.Job, name, files[name]))
	}
	r.finish(c, result)
}

func (r *rig) finish(c jobs.Claim, result artifact.Result) {
	r.t.Helper()
	text, err := json.Marshal(result)
	if err != nil {
		r.t.Fatal(err)
	}
	r.end(c, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Text: string(text)}})
}

func (r *rig) end(c jobs.Claim, o jobs.Outcome) {
	r.t.Helper()
	if _, err := r.status.Finish(r.t.Context(), c, o); err != nil {
		r.t.Fatal(err)
	}
}

// write puts a file where a task has its artifacts.
func (r *rig) write(id jobs.ID, name, text string) {
	r.t.Helper()
	if err := errors.Join(r.tasks.dir.prepare(id), os.WriteFile(r.tasks.dir.of(id, artifactsDir, name), []byte(text), 0o600)); err != nil {
		r.t.Fatal(err)
	}
}

// uploading makes a task whose program has made these files.
func (r *rig) uploading(files map[string]string) jobs.ID {
	r.t.Helper()
	id := r.queued("")
	r.made(r.claim(id), files)
	return id
}

var oneFile = map[string]string{"a.txt": "what the program has made"}

// copyTo copies what a relay has on disk now.
func (r *rig) copyTo(dir string) {
	r.t.Helper()
	if err := os.CopyFS(filepath.Join(dir, filepath.Base(r.Dir)), os.DirFS(r.Dir)); err != nil {
		r.t.Error(err)
	}
}

// script is a caller that reaches no network: it answers the nth call, from 1, as do does.
type script struct {
	do func(n int, r *egress.Request) (egress.Response, error)

	mu    sync.Mutex
	times []time.Time
	last  *egress.Request
}

// Do implements caller.
func (s *script) Do(_ context.Context, r *egress.Request) (egress.Response, error) {
	s.mu.Lock()
	s.times, s.last = append(s.times, time.Now()), r
	n := len(s.times)
	s.mu.Unlock()
	return s.do(n, r)
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.times)
}

// pauses returns the times between calls.
func (s *script) pauses() (all []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range len(s.times) - 1 {
		all = append(all, s.times[i+1].Sub(s.times[i]))
	}
	return all
}

// answering answers all calls alike.
func answering(code int, after time.Duration) *script {
	return &script{do: func(int, *egress.Request) (egress.Response, error) {
		return egress.Response{Status: code, RetryAfter: after}, nil
	}}
}

// inBubble returns a relay for a test in fake time, whose calls a script answers.
func inBubble(t *testing.T, s *script) *rig {
	t.Helper()
	return inBubbleAt(t, t.TempDir(), s)
}

func inBubbleAt(t *testing.T, dir string, s *script) *rig {
	t.Helper()
	r := setup(t, dir).to("https://orchestrator.test")
	r.Callbacks = egress.Policy{Hosts: []string{"hooks.test"}}
	r.Keep = 1000 * time.Hour
	r.alone()
	r.uploads.client, r.callbacks.others.client, r.callbacks.own.client = s, s, s
	return r
}

// newServer starts a server.
func newServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}
