package dashboard_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/dashboard"
	"github.com/batchfleet/batchfleet/dashboard/dashboardtest"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// elsewhere returns a rig whose Job API is behind a real connection.
func elsewhere(t *testing.T, guard *jobapi.Guard) *rig {
	t.Helper()
	g := open(t, guard)
	server := httptest.NewServer(g.Board.API)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	g.Board = &dashboard.Dashboard{API: dashboard.Forward(base, http.DefaultTransport, slog.New(slog.NewTextHandler(g.Logged, nil))), Log: g.Board.Log, Version: "1.2.3"}
	g.handler = g.Board.Beside(http.NotFoundHandler())
	return g
}

func TestD20PagesAreTheSameOverAnAPIElsewhere(t *testing.T) {
	g := elsewhere(t, nil)
	for _, path := range allPages {
		g.see(t, path, `<main id="main"`)
	}
	g.see(t, "/jobs/fleet/done-1", "page-1.png", "wrote page-1.png")
	if p := g.ask(t, "POST /act", form("do", "cancel", "scope", "fleet", "id", "film-7", "sure", "yes"), "Origin", "http://localhost:8080", "Sec-Fetch-Site", "same-origin"); p.status != http.StatusSeeOther || g.state(t, "film-7") != jobs.Canceled {
		t.Errorf("cancel: %d\n%s", p.status, mainOf(p.body))
	}
	p := g.send(t, [][2]string{{"scope", "fleet"}, {"kind", "pdf"}}, map[string][]byte{"a.pdf": make([]byte, 3<<20)})
	if p.status != http.StatusSeeOther || len(g.Input("uploads/a.pdf")) != 3<<20 {
		t.Errorf("upload: %d, %d bytes\n%s", p.status, len(g.Input("uploads/a.pdf")), mainOf(p.body))
	}
}

func TestD23AServerThatIsOpenToItsMachineStaysClosedToOthersThroughADashboard(t *testing.T) {
	g := elsewhere(t, nil)
	for name, header := range map[string][]string{"through a proxy": {"X-Forwarded-For", "192.0.2.7"}, "for another name": {"Host", "evil.example"}} {
		for _, path := range []string{"/jobs", "/api/v1/fleet/jobs"} {
			if p := g.ask(t, "GET "+path, "", header...); p.status != http.StatusForbidden || strings.Contains(p.body, "film-7") {
				t.Errorf("%s %s: status %d", path, name, p.status)
			}
		}
	}
	for _, site := range []string{"cross-site", "same-site"} {
		if p := g.ask(t, "POST /api/v1/fleet/jobs/film-7/cancel", "", "Sec-Fetch-Site", site, "Origin", "http://localhost:3000"); p.status != http.StatusForbidden || g.state(t, "film-7") != jobs.Queued {
			t.Errorf("%s: status %d", site, p.status)
		}
	}
	guard, read, _, _ := tokens(t)
	g = elsewhere(t, guard)
	if p := g.ask(t, "GET /jobs", ""); p.status != http.StatusSeeOther {
		t.Errorf("without a token: %d", p.status)
	}
	g.ask(t, "GET /jobs", "", "Cookie", g.login(t, read)).has(t, "/jobs", "film-7")
}

func TestD23ADashboardsOwnTokenOnlyShowsThingsToThisMachine(t *testing.T) {
	guard, _, operate, admin := tokens(t)
	g := open(t, guard)
	g.Board.Token = admin
	g.see(t, "/jobs", "film-7", "Read-only: things are shown here").lacks(t, "/jobs", "retry…")
	if p := g.ask(t, "GET /api/v1/fleet/jobs", ""); p.status != http.StatusOK {
		t.Errorf("read: %d", p.status)
	}
	for what, body := range map[string]string{"POST /api/v1/fleet/jobs/film-7/cancel": "", "POST /act": form("do", "cancel", "scope", "fleet", "id", "film-7", "sure", "yes")} {
		if p := g.ask(t, what, body); p.status != http.StatusUnauthorized && p.status != http.StatusForbidden || g.state(t, "film-7") != jobs.Queued {
			t.Errorf("%s: %d", what, p.status)
		}
	}
	for name, header := range map[string][]string{"of another name": {"Host", "evil.example"}, "through a proxy": {"X-Forwarded-For", "192.0.2.7"}, "of another site": {"Sec-Fetch-Site", "cross-site"}} {
		for _, path := range []string{"/jobs", "/api/v1/fleet/jobs"} {
			if p := g.ask(t, "GET "+path, "", header...); p.status != http.StatusForbidden && p.status != http.StatusUnauthorized {
				t.Errorf("%s %s: %d", path, name, p.status)
			}
		}
	}
	cookie := g.login(t, operate)
	if p := g.ask(t, "POST /act", form("do", "cancel", "scope", "fleet", "id", "film-7", "sure", "yes"), "Cookie", cookie); p.status != http.StatusSeeOther {
		t.Errorf("with the visitor's own token: %d\n%s", p.status, mainOf(p.body))
	}
}

func TestD20AServerThatCannotBeReachedIsSaidToBe(t *testing.T) {
	base, _ := url.Parse("http://127.0.0.1:1")
	g := over(t, dashboardtest.Sample(time.Now()), nil)
	g.Board.API = dashboard.Forward(base, http.DefaultTransport, g.Board.Log)
	g.handler = g.Board.Beside(http.NotFoundHandler())
	p := g.ask(t, "GET /jobs", "")
	if p.status != http.StatusServiceUnavailable {
		t.Errorf("status %d", p.status)
	}
	p.has(t, "/jobs", "127.0.0.1:1, cannot be reached")
}
