package dashboard_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// tokens returns a guard and a token for each scope.
func tokens(t *testing.T) (guard *jobapi.Guard, read, operate, admin string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	add := func(name string, scope access.Scope) string {
		token, err := access.AddToken(file, name, scope, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	read, operate, admin = add("reader", access.Read), add("operator", access.Operate), add("boss", access.Admin)
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	guard, err := jobapi.OpenTokens(file, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return guard, read, operate, admin
}

// login logs in and returns the cookie.
func (g *rig) login(t *testing.T, token string) string {
	t.Helper()
	p := g.ask(t, "POST /login", form("token", token, "next", "/jobs?state=failed"))
	if p.status != http.StatusSeeOther || p.header.Get("Location") != "/jobs?state=failed" {
		t.Fatalf("log in: %d to %q\n%s", p.status, p.header.Get("Location"), mainOf(p.body))
	}
	cookie, _, _ := strings.Cut(p.header.Get("Set-Cookie"), ";")
	return cookie
}

func TestD23PagesAskForALoginAndKeepTheTokenInACookie(t *testing.T) {
	guard, read, _, _ := tokens(t)
	g := open(t, guard)
	p := g.ask(t, "GET /jobs?state=failed", "")
	if p.status != http.StatusSeeOther || p.header.Get("Location") != "/login?next=%2Fjobs%3Fstate%3Dfailed" {
		t.Errorf("without a token: %d to %q", p.status, p.header.Get("Location"))
	}
	if p := g.ask(t, "GET /", "", "X-Part", "main"); p.status != http.StatusUnauthorized {
		t.Errorf("a part without a token: %d", p.status)
	}
	g.see(t, "/login?next=/jobs", `name="next" value="/jobs"`, `type="password"`).lacks(t, "/login", `<nav aria-label="Pages">`)
	p = g.ask(t, "POST /login", form("token", read))
	set := p.header.Get("Set-Cookie")
	for _, want := range []string{"batchfleet-8080=", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie lacks %s: %s", want, set)
		}
	}
	if strings.Contains(set, "Secure") {
		t.Errorf("over plain HTTP the cookie is Secure, so it would be lost: %s", set)
	}
	p = g.ask(t, "POST /login", form("token", read), "X-Forwarded-Proto", "https", "Host", "jobs.example.com")
	if set = p.header.Get("Set-Cookie"); !strings.HasPrefix(set, "__Host-batchfleet-web=") || !strings.Contains(set, "Secure") {
		t.Errorf("over TLS: %s", set)
	}
	cookie := g.login(t, read)
	g.ask(t, "GET /jobs", "", "Cookie", cookie).has(t, "/jobs", "film-7", "reader", "Log out")
	p = g.ask(t, "POST /logout", "", "Cookie", cookie)
	if set = p.header.Get("Set-Cookie"); p.status != http.StatusSeeOther || !strings.Contains(set, "Max-Age=0") {
		t.Errorf("log out: %d, %s", p.status, set)
	}
}

func TestD23AWrongTokenIsRefusedAtLogin(t *testing.T) {
	guard, _, _, _ := tokens(t)
	g := open(t, guard)
	for _, token := range []string{"", "bft_wrong", "with blank", "ä", strings.Repeat("a", 600), `"><canary>`} {
		p := g.ask(t, "POST /login", form("token", token))
		if p.status != http.StatusUnauthorized && p.status != http.StatusBadRequest || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%.20q: status %d, cookie %q", token, p.status, p.header.Get("Set-Cookie"))
		}
		p.has(t, "/login", `role="alert"`)
	}
	closed := open(t, jobapi.Closed)
	closed.ask(t, "POST /login", form("token", "abc")).has(t, "/login", "The Job API is closed")
}

func TestD23LoginGoesOnlyToThisServer(t *testing.T) {
	guard, read, _, _ := tokens(t)
	g := open(t, guard)
	for _, next := range []string{"//evil.example", "https://evil.example/", `/\evil.example`, "javascript:alert(1)", "evil", "/\nx", "\\\\evil"} {
		if to := g.ask(t, "POST /login", form("token", read, "next", next)).header.Get("Location"); to != "/" {
			t.Errorf("next %q goes to %q", next, to)
		}
	}
}

func TestD23TheCookieIsGoodForTheJobAPIFromTheSameOriginOnly(t *testing.T) {
	guard, _, operate, _ := tokens(t)
	g := open(t, guard)
	cookie := g.login(t, operate)
	if p := g.ask(t, "GET /api/v1/fleet/jobs", "", "Cookie", cookie); p.status != http.StatusOK {
		t.Errorf("read with the cookie: %d", p.status)
	}
	for name, header := range map[string][]string{
		"of another site": {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, "of another port": {"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:3000"}, "with another origin alone": {"Origin", "http://evil.example"},
	} {
		for _, what := range []string{"POST /api/v1/fleet/jobs/film-7/cancel", "GET /api/v1/fleet/jobs"} {
			if p := g.ask(t, what, "", append(header, "Cookie", cookie)...); p.status != http.StatusUnauthorized {
				t.Errorf("%s %s: status %d, want 401", what, name, p.status)
			}
		}
		for _, what := range []string{"POST /act", "POST /login", "POST /logout", "POST /new", "POST /bulk"} {
			if p := g.ask(t, what, form("do", "cancel", "scope", "fleet", "id", "film-7", "sure", "yes"), append(header, "Cookie", cookie)...); p.status != http.StatusForbidden {
				t.Errorf("%s %s: status %d, want 403", what, name, p.status)
			}
		}
	}
	if p := g.ask(t, "POST /api/v1/fleet/jobs/film-7/cancel", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"); p.status != http.StatusOK {
		t.Errorf("from a page of this server: %d %s", p.status, p.body)
	}
	if p := g.ask(t, "GET /api/v1/fleet/jobs", "", "Cookie", cookie, "Authorization", "Bearer wrong"); p.status != http.StatusUnauthorized {
		t.Errorf("its own Authorization does not count: %d", p.status)
	}
}

func TestD23ALinkFromAnotherSiteOpensThePageAgain(t *testing.T) {
	g := open(t, nil)
	p := g.ask(t, "GET /jobs?q=%3Ccanary%3E", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate")
	if p.status != http.StatusOK || p.header.Get("Refresh") != "0" || strings.Contains(p.body, "film-7") || strings.Contains(p.body, "<canary") {
		t.Errorf("%d, Refresh %q\n%s", p.status, p.header.Get("Refresh"), p.body)
	}
	if p := g.ask(t, "GET /jobs", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "iframe"); p.status != http.StatusForbidden {
		t.Errorf("in a frame of another site: %d", p.status)
	}
}

func TestD23TheGuardJudgesTheVisitor(t *testing.T) {
	g := open(t, nil) // open to this machine alone
	for name, header := range map[string][]string{"through a proxy": {"X-Forwarded-For", "192.0.2.7"}, "for another name": {"Host", "evil.example"}} {
		if p := g.ask(t, "GET /jobs", "", header...); p.status != http.StatusForbidden || strings.Contains(p.body, "film-7") {
			t.Errorf("%s: status %d", name, p.status)
		}
	}
}

func TestD23EveryAnswerHasItsPolicy(t *testing.T) {
	g := open(t, nil)
	for _, path := range append([]string{"/login", "/nothing-here/x", "/jobs/fleet/gone", "/assets/x/y"}, allPages...) {
		p := g.ask(t, "GET "+path, "")
		if path == "/nothing-here/x" {
			continue // not of the dashboard
		}
		csp := p.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'self'; ") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") ||
			p.header.Get("X-Content-Type-Options") != "nosniff" || p.header.Get("X-Frame-Options") != "DENY" || p.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, p.header)
		}
	}
}
