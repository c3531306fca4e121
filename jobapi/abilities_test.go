package jobapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
	"github.com/batchfleet/batchfleet/jobs"
)

// able is a fakeJobs that can all that a scope can do beside what all can.
type able struct {
	notifying
	states sync.Mutex
	paused []jobapi.Paused
	drains map[string]string // by workerId
	input  []byte
}

func newAble() *able {
	return &able{notifying: notifying{newFakeJobs()}, drains: map[string]string{"w-1": "idle"}}
}

func (a *able) Why(_ context.Context, id string) ([]jobapi.Reason, error) {
	if id == "job_gone" {
		return nil, fs.ErrNotExist
	}
	three := 3
	return []jobapi.Reason{{Code: jobapi.WhyQueued, Message: "behind <b>three</b> others", Ahead: &three}}, nil
}

func (a *able) Kinds(context.Context) ([]jobapi.Kind, error) {
	return []jobapi.Kind{{Name: "pdf", Input: "one", Params: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (a *able) Paused(context.Context) ([]jobapi.Paused, error) {
	a.states.Lock()
	defer a.states.Unlock()
	return slices.Clone(a.paused), nil
}

func (a *able) Pause(_ context.Context, kind string) error {
	a.states.Lock()
	defer a.states.Unlock()
	if kind == "many" {
		return fmt.Errorf("pause: %w", jobapi.ErrManyPaused)
	}
	if kind != "pdf" {
		return fmt.Errorf("pause: %w", jobapi.ErrNoKind)
	}
	a.paused = []jobapi.Paused{{Kind: kind, Since: jobapi.At(day)}}
	return nil
}

func (a *able) Resume(_ context.Context, kind string) error {
	a.states.Lock()
	defer a.states.Unlock()
	if kind != "pdf" {
		return jobapi.ErrNoKind
	}
	a.paused = nil
	return nil
}

func (a *able) Workers(context.Context) (all []jobapi.Worker, err error) {
	a.enterMu("Workers")
	a.states.Lock()
	defer a.states.Unlock()
	for id, state := range a.drains {
		all = append(all, jobapi.Worker{ID: id, Name: "one", Kinds: []string{"pdf"}, Slots: 2, State: state})
	}
	return all, nil
}

func (a *able) enterMu(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[method]++
}

func (a *able) set(id, state string) error {
	a.states.Lock()
	defer a.states.Unlock()
	if _, ok := a.drains[id]; !ok {
		return fmt.Errorf("%w: %s", jobapi.ErrNoWorker, id)
	}
	a.drains[id] = state
	return nil
}

func (a *able) DrainWorker(_ context.Context, id string) error  { return a.set(id, "draining") }
func (a *able) ResumeWorker(_ context.Context, id string) error { return a.set(id, "idle") }
func (a *able) RevokeWorker(_ context.Context, id string) error { return a.set(id, "silent") }

func (a *able) StoreInput(_ context.Context, name string, r io.Reader) (string, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	if name == "full.pdf" {
		return "", errors.New("disk full: secret path")
	}
	a.input = text
	return "inputs/1/" + name, nil
}

func (a *able) Report(context.Context) ([]jobapi.Section, error) {
	return []jobapi.Section{{Title: "Disk", Columns: []string{"path"}, Rows: [][]string{{"/data"}}}}, nil
}

// ableServer returns a server of one scope that can all there is.
func ableServer() (*jobapi.Server, *able) {
	a := newAble()
	a.put("job_1", "fleet.pdf", jobs.Queued)
	return &jobapi.Server{Scopes: []jobapi.Scope{{Name: "fleet", Jobs: a, Cancel: access.Operate, Create: access.Operate}}}, a
}

func TestD30WhyOfAJob(t *testing.T) {
	s, a := ableServer()
	a.put("job_gone", "fleet.pdf", jobs.Queued)
	g := serve(t, s)
	want := `{"jobId":"job_1","status":"queued","reasons":[{"code":"QUEUED","message":"behind <b>three</b> others","ahead":3,"since":null,"until":null}]}` + "\n"
	if a := g.ask(t, "GET /api/v1/fleet/jobs/job_1/why", ""); a.status != 200 || a.body != want {
		t.Errorf("%d %s", a.status, a.body)
	}
	for what, status := range map[string]int{"/job_2/why": 404, "/job_gone/why": 404, "/%3Cb%3E/why": 404, "/job_1/why?x=1": 400} {
		if a := g.ask(t, "GET /api/v1/fleet/jobs"+what, ""); a.status != status {
			t.Errorf("%s: %d %s, want %d", what, a.status, a.body, status)
		}
	}
}

func TestD08WhatAScopeCanDoHasRoutes(t *testing.T) {
	s, _ := ableServer()
	g := serve(t, s)
	for _, tt := range []struct {
		what   string
		status int
		body   string // or a part of it
	}{
		{"GET /scopes", 200, `{"items":[{"name":"fleet","abilities":["drain","kinds","pause","report","revoke","upload","why","workers"],"operations":[]}]}`},
		{"GET /whoami", 200, `{"name":"loopback","scope":"admin","readOnly":false,"expiresAt":null}`},
		{"GET /tokens", 200, `{"items":[]}`},
		{"GET /fleet/kinds", 200, `"name":"pdf","params":{"type":"object"},"input":"one","workers":0`},
		{"POST /fleet/kinds/pdf/pause", 200, `{"kind":"pdf","pausedSince":"2026-01-23T09:00:00.000Z"}`},
		{"POST /fleet/kinds/pdf/resume", 200, `{"kind":"pdf","pausedSince":null}`},
		{"POST /fleet/kinds/zpe/pause", 404, "NOT_FOUND"},
		{"POST /fleet/kinds/%3Cb%3E/pause", 404, "NOT_FOUND"},
		{"POST /fleet/kinds/many/pause", 409, "CONFLICT"},
		{"POST /fleet/kinds/pdf/pause?x=1", 400, "INVALID_ARGUMENT"},
		{"GET /fleet/workers", 200, `"state":"idle"`},
		{"POST /fleet/workers/w-1/drain", 200, `{"workerId":"w-1"}`},
		{"GET /fleet/workers", 200, `"state":"draining"`}, // at once, and not what was shared just now
		{"POST /fleet/workers/w-1/resume", 200, `{"workerId":"w-1"}`},
		{"GET /fleet/workers", 200, `"state":"idle"`},
		{"POST /fleet/workers/w-1/revoke", 200, `{"workerId":"w-1"}`},
		{"GET /fleet/workers", 200, `"state":"silent"`},
		{"POST /fleet/workers/w-2/drain", 404, "NOT_FOUND"},
		{"POST /fleet/workers/%00/drain", 404, "NOT_FOUND"},
		{"GET /fleet/report", 200, `{"sections":[{"title":"Disk","columns":["path"],"rows":[["/data"]]}]}`},
		{"GET /overview", 404, "NOT_FOUND"},
		{"GET /audit?x", 400, "INVALID_ARGUMENT"},
	} {
		method, path, _ := strings.Cut(tt.what, " ")
		if a := g.ask(t, method+" /api/v1"+path, ""); a.status != tt.status || !strings.Contains(a.body, tt.body) {
			t.Errorf("%s: %d %s, want %d %s", tt.what, a.status, a.body, tt.status, tt.body)
		}
	}
}

func TestD08InputsAreUploadedWhole(t *testing.T) {
	s, of := ableServer()
	s.MaxInput = 1000
	g := serve(t, s)
	want := `{"input":"inputs/1/a b.pdf","bytes":5,"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}` + "\n"
	if a := g.ask(t, "POST /api/v1/fleet/inputs?name=a%20b.pdf", "hello", "Content-Type", "application/pdf"); a.status != 201 || a.body != want || string(of.input) != "hello" {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, tt := range []struct {
		query, body string
		status      int
		word        string
	}{
		{"", "x", 400, "name"},
		{"?name=..", "x", 400, "name"},
		{"?name=a%2Fb", "x", 400, "name"},
		{"?name=a%0Ab", "x", 400, "name"},
		{"?name=" + strings.Repeat("n", 129), "x", 400, "name"},
		{"?name=a&x=1", "x", 400, "such parameter"},
		{"?name=a", strings.Repeat("x", 1001), 413, "PAYLOAD_TOO_LARGE"},
		{"?name=full.pdf", "x", 500, "INTERNAL"},
	} {
		if a := g.ask(t, "POST /api/v1/fleet/inputs"+tt.query, tt.body); a.status != tt.status || !strings.Contains(a.body, tt.word) || strings.Contains(a.body, "secret") {
			t.Errorf("%.60s: %d %s, want %d %s", tt.query, a.status, a.body, tt.status, tt.word)
		}
	}
	// A body whose length was not announced is cut off at the limit.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/v1/fleet/inputs?name=a", io.MultiReader(bytes.NewReader(make([]byte, 2000))))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("2000 bytes of 1000 in chunks: %s", resp.Status)
	}
}

func TestD08AnUploadThatStandsStillEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := ableServer()
		g := serve(t, s)
		body, feed := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/v1/fleet/inputs?name=a", body)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range 3 { // faster than the limit, for longer than a request may take
				_, _ = feed.Write(make([]byte, 2<<20))
				time.Sleep(25 * time.Second)
			}
		}()
		begun := time.Now()
		resp, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if took := time.Since(begun); resp.StatusCode != http.StatusRequestTimeout || took < 75*time.Second || took > 2*time.Minute {
			t.Errorf("%s after %v", resp.Status, took)
		}
		_ = feed.Close()
		g.stop()
	})
}

func TestD23TokensOfTooSmallAScopeReachNoNewRoute(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	tokens := map[access.Scope]string{}
	for _, scope := range []access.Scope{access.Read, access.Operate, access.Admin} {
		tokens[scope] = addToken(t, file, scope.String(), scope, time.Time{})
	}
	s, _ := ableServer()
	s.Watch = noWatch{}
	var err error
	if s.Guard, err = jobapi.OpenTokens(file, "", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	g := serve(t, s)
	for what, need := range map[string]access.Scope{
		"GET /scopes": access.Read, "GET /whoami": access.Read, "GET /overview": access.Read, "HEAD /events": access.Read, "GET /fleet/jobs/job_1/why": access.Read, "GET /fleet/kinds": access.Read,
		"GET /fleet/workers": access.Read, "GET /fleet/report": access.Read, "GET /tokens": access.Admin, "GET /audit": access.Admin,
		"POST /fleet/kinds/pdf/pause": access.Operate, "POST /fleet/kinds/pdf/resume": access.Operate, "POST /fleet/workers/w-1/drain": access.Operate, "POST /fleet/workers/w-1/resume": access.Operate,
		"POST /fleet/inputs?name=a": access.Operate, "POST /fleet/workers/w-1/revoke": access.Admin,
	} {
		method, path, _ := strings.Cut(what, " ")
		for scope, token := range tokens {
			a := g.ask(t, method+" /api/v1"+path, "", "Authorization", "Bearer "+token)
			if may := scope >= need; may != (a.status/100 == 2) || !may && a.status != 403 {
				t.Errorf("%s with %s: %d %s", what, scope, a.status, a.body)
			}
		}
		if a := g.ask(t, method+" /api/v1"+path, ""); a.status != 401 {
			t.Errorf("%s without a token: %d", what, a.status)
		}
	}
	list := g.ask(t, "GET /api/v1/tokens", "", "Authorization", "Bearer "+tokens[access.Admin])
	if list.body != `{"items":[{"name":"read","scope":"read","expiresAt":null},{"name":"operate","scope":"operate","expiresAt":null},{"name":"admin","scope":"admin","expiresAt":null}]}`+"\n" {
		t.Errorf("tokens: %s", list.body)
	}
	if a := g.ask(t, "GET /api/v1/whoami", "", "Authorization", "Bearer "+tokens[access.Operate]); !strings.Contains(a.body, `"name":"operate","scope":"operate"`) {
		t.Errorf("whoami: %s", a.body)
	}
}

// noWatch is a Watch that sees nothing.
type noWatch struct{}

func (noWatch) Overview(context.Context) (*jobapi.Overview, error) { return &jobapi.Overview{}, nil }
func (noWatch) Changed()                                           {}
func (noWatch) Run(ctx context.Context)                            { <-ctx.Done() }
func (noWatch) Follow(w http.ResponseWriter, _ *http.Request, _ jobapi.EventQuery) error {
	w.WriteHeader(http.StatusOK)
	return nil
}

func TestD23TheAuditHasTheNewestThousandChanges(t *testing.T) {
	s, _ := ableServer()
	g := serve(t, s)
	g.ask(t, "POST /api/v1/fleet/workers/old/drain", "")
	for range 998 {
		g.ask(t, "POST /api/v1/fleet/workers/none/drain", "")
	}
	g.ask(t, "POST /api/v1/fleet/kinds/pdf/pause", "", "X-Request-Id", "first-of-three")
	g.ask(t, "POST /api/v1/fleet/workers/w-1/drain", "")
	g.ask(t, "POST /api/v1/fleet/jobs/job_1/cancel", "")
	var all struct{ Items []jobapi.Change }
	if err := json.Unmarshal([]byte(g.ask(t, "GET /api/v1/audit", "").body), &all); err != nil || len(all.Items) != 1000 {
		t.Fatalf("%d changes, %v", len(all.Items), err)
	}
	top := make([]string, 4)
	for i := range top {
		c := all.Items[i]
		top[i] = fmt.Sprintf("%s %s %s %s%s%s %d", c.Token, c.Scope, c.Operation, c.Job, c.Kind, c.Worker, c.Status)
	}
	if want := []string{"loopback fleet cancel job_1 200", "loopback fleet drain w-1 200", "loopback fleet pause pdf 200", "loopback fleet drain  404"}; !slices.Equal(top, want) {
		t.Errorf("the newest are %q, want %q", top, want)
	}
	if c := all.Items[2]; c.Route != "POST /api/v1/fleet/kinds/{kind}/pause" || c.RequestID != "first-of-three" || c.At.IsZero() {
		t.Errorf("the pause is %+v", c)
	}
}

func TestD23AReadOnlyServerRefusesAllThatChanges(t *testing.T) {
	s, _ := ableServer()
	s.ReadOnly = true
	g := serve(t, s)
	for _, path := range []string{"kinds/pdf/pause", "kinds/pdf/resume", "workers/w-1/drain", "workers/w-1/resume", "workers/w-1/revoke", "inputs?name=a"} {
		if a := g.ask(t, "POST /api/v1/fleet/"+path, ""); a.status != 403 || a.code() != "READ_ONLY" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := g.ask(t, "GET /api/v1/whoami", ""); !strings.Contains(a.body, `"readOnly":true`) {
		t.Errorf("whoami: %s", a.body)
	}
}
