package dashboard_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/dashboard"
	"github.com/batchfleet/batchfleet/dashboard/dashboardtest"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobapi"
)

// rig is a dashboard over a fleet in memory.
type rig struct {
	*dashboardtest.Fleet
	Utils   *dashboardtest.Utils
	Server  *jobapi.Server
	Board   *dashboard.Dashboard
	handler http.Handler
	Logged  *testlog.Buffer
}

// open returns a rig whose fleet has a sample of jobs. A nil guard is that of loopback.
func open(t *testing.T, guard *jobapi.Guard) *rig {
	t.Helper()
	return over(t, dashboardtest.Sample(time.Now()), guard)
}

func over(t *testing.T, f *dashboardtest.Fleet, guard *jobapi.Guard) *rig {
	t.Helper()
	if guard == nil {
		guard = jobapi.Loopback
	}
	g := &rig{Fleet: f, Logged: &testlog.Buffer{}}
	log := slog.New(slog.NewTextHandler(g.Logged, nil))
	g.Server, g.Utils = dashboardtest.Server(f, guard, log)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	handler := g.Server.Handler()
	running.Go(func() { g.Server.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	g.Board = &dashboard.Dashboard{API: handler, Log: log, Version: "1.2.3"}
	g.handler = g.Board.Beside(http.NotFoundHandler())
	return g
}

// page is an answer.
type page struct {
	status int
	header http.Header
	body   string
}

// ask sends "METHOD PATH" from this machine, with pairs of header names and values. A body is a form.
func (g *rig) ask(t *testing.T, what, body string, header ...string) page {
	t.Helper()
	method, path, _ := strings.Cut(what, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "localhost:8080"
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	return page{w.Code, w.Header(), w.Body.String()}
}

// see asks for a page that must be there, and have all of these texts.
func (g *rig) see(t *testing.T, path string, texts ...string) page {
	t.Helper()
	p := g.ask(t, "GET "+path, "")
	if p.status != http.StatusOK {
		t.Fatalf("%s: status %d: %s\n%s", path, p.status, p.body, g.Logged.String())
	}
	p.has(t, path, texts...)
	return p
}

func (p page) has(t *testing.T, path string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.body, text) {
			t.Errorf("%s lacks %q:\n%s", path, text, mainOf(p.body))
		}
	}
}

func (p page) lacks(t *testing.T, path string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.body, text) {
			t.Errorf("%s has %q", path, text)
		}
	}
}

// mainOf is the main part of a page, at most 6000 bytes of it.
func mainOf(html string) string {
	_, after, _ := strings.Cut(html, "<main")
	after, _, _ = strings.Cut(after, "</main>")
	return after[:min(len(after), 6000)]
}

// form is the body of a form.
func form(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return values.Encode()
}

// squeezed is a text without the blanks at the ends of its lines, for comparisons.
func squeezed(s string) string { return string(bytes.Join(bytes.Fields([]byte(s)), []byte(" "))) }
