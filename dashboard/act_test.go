package dashboard_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
)

// status returns the state of a job of the fleet.
func (g *rig) state(t *testing.T, id string) jobs.State {
	t.Helper()
	found, err := g.Get(t.Context(), []string{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("get %s: %d jobs, %v", id, len(found), err)
	}
	return found[0].Status
}

func TestD03AJobIsCanceledAndRetriedAfterAQuestion(t *testing.T) {
	g := open(t, nil)
	p := g.ask(t, "POST /act", form("do", "cancel", "scope", "fleet", "id", "film-7"))
	p.has(t, "/act", "Cancel job film-7?", `name="sure" value="yes"`, `href="/jobs/fleet/film-7">Back`)
	if s := g.state(t, "film-7"); s != jobs.Queued {
		t.Errorf("before the answer it is %s", s)
	}
	p = g.ask(t, "POST /act", form("do", "cancel", "scope", "fleet", "id", "film-7", "sure", "yes"))
	if to := p.header.Get("Location"); p.status != http.StatusSeeOther || to != "/jobs/fleet/film-7?notice=canceled" || g.state(t, "film-7") != jobs.Canceled {
		t.Errorf("cancel: %d to %q, it is %s", p.status, to, g.state(t, "film-7"))
	}
	g.see(t, "/jobs/fleet/film-7?notice=canceled", "The job is canceled.")
	p = g.ask(t, "POST /act", form("do", "cancel", "scope", "fleet", "id", "film-7", "sure", "yes"))
	if p.status != http.StatusConflict {
		t.Errorf("cancel again: %d", p.status)
	}
	p.has(t, "/act", "The job has ended already: canceled")
	p = g.ask(t, "POST /act", form("do", "retry", "scope", "fleet", "id", "broken-1", "sure", "yes"))
	if p.status != http.StatusSeeOther || g.state(t, "broken-1") != jobs.Queued {
		t.Errorf("retry: %d, it is %s", p.status, g.state(t, "broken-1"))
	}
	for _, body := range []string{"", form("do", "explode", "scope", "fleet", "id", "x"), form("do", "cancel", "scope", "fleet")} {
		if p := g.ask(t, "POST /act", body); p.status != http.StatusBadRequest {
			t.Errorf("%q: %d", body, p.status)
		}
	}
	if p := g.ask(t, "POST /act", form("do", "drain", "scope", "../../x", "id", "../y")); p.status != http.StatusNotFound {
		t.Errorf("a path in a name: %d", p.status)
	}
}

func TestD05WorkersAreShownAndDrainedAndRevoked(t *testing.T) {
	g := open(t, nil)
	p := g.see(t, "/workers", `id="w-cpu-1"`, "cpu-1.example.com", "6 of 8 slots", "0.9.0", "-12 ms", `<span class="badge">thumbnail</span>`, "silent", `value="resume-worker"`, `href="/jobs?scope=fleet&amp;worker=gpu-1"`)
	if n := strings.Count(p.body, "Drain</button>"); n != 3 {
		t.Errorf("%d workers can be drained, want 3", n)
	}
	g.ask(t, "POST /act", form("do", "drain", "scope", "fleet", "id", "w-cpu-2"))
	g.ask(t, "POST /act", form("do", "resume-worker", "scope", "fleet", "id", "w-gpu-1"))
	g.ask(t, "POST /act", form("do", "revoke", "scope", "fleet", "id", "w-gpu-3")).has(t, "/act", "Lock out worker w-gpu-3?")
	g.ask(t, "POST /act", form("do", "revoke", "scope", "fleet", "id", "w-gpu-3", "sure", "yes"))
	if done := g.Done(); !slices.Equal(done, []string{"drain w-cpu-2", "resume w-gpu-1", "revoke w-gpu-3"}) {
		t.Errorf("asked for %q", done)
	}
	if p := g.ask(t, "POST /act", form("do", "drain", "scope", "fleet", "id", "unknown")); p.status != http.StatusNotFound {
		t.Errorf("a worker that is not there: %d", p.status)
	}
}

func TestD06KindsAreShownAndPaused(t *testing.T) {
	g := open(t, nil)
	g.see(t, "/kinds", "A picture of the first page", "cap 4", "3.0 s · 3.0 s · 3.0 s", `href="/new?scope=fleet&amp;kind=thumbnail"`, "24 slots")
	if p := g.ask(t, "POST /act", form("do", "pause", "scope", "fleet", "id", "render")); p.header.Get("Location") != "/kinds?notice=paused" {
		t.Errorf("pause: %d %s", p.status, p.body)
	}
	g.see(t, "/kinds?notice=paused", "The kind is paused.", "paused now", "Resume</button>")
	g.ask(t, "POST /act", form("do", "resume", "scope", "fleet", "id", "render"))
	g.see(t, "/kinds").lacks(t, "/kinds", "paused now")
}

func TestD02AllThatMatchAreCanceledAsAnOperationAfterADryRun(t *testing.T) {
	g := open(t, nil)
	p := g.see(t, "/jobs?scope=fleet&state=queued&kind=pdf", "cancel…", "retry…")
	_, rest, _ := strings.Cut(p.body, `All that match: <a class="button" href="`)
	href, _, _ := strings.Cut(rest, `"`)
	href = strings.ReplaceAll(href, "&amp;", "&")
	g.see(t, href, "Cancel all jobs that match?", "scope fleet, state queued, kind pdf", "cancel: 12 jobs match", `name="ratePerSecond" type="number" value="50"`)
	if done := g.Utils.Done(); len(done) > 0 {
		t.Fatalf("a dry run has done %q", done)
	}
	u, _ := url.Parse(href)
	p = g.ask(t, "POST /bulk", form("do", "cancel", "filter", u.Query().Get("filter"), "ratePerSecond", "7", "maxJobs", "100", "stopAfterErrors", "3", "sure", "yes"))
	if to := p.header.Get("Location"); p.status != http.StatusSeeOther || !strings.HasPrefix(to, "/jobs/utils/job_") {
		t.Fatalf("%d to %q\n%s", p.status, to, mainOf(p.body))
	}
	want := `cancel {"kind":"pdf","maxJobs":100,"ratePerSecond":7,"scope":"fleet","status":"queued","stopAfterErrors":3}`
	if done := g.Utils.Done(); !slices.Equal(done, []string{want}) {
		t.Errorf("asked for %q, want %q", done, want)
	}
	g.see(t, p.header.Get("Location"), "The operation has started.", "&#34;stopAfterErrors&#34;: 3")
	p = g.ask(t, "POST /bulk", form("do", "cancel", "filter", "scope=fleet", "maxJobs", "many", "sure", "yes"))
	if p.status != http.StatusBadRequest {
		t.Errorf("a wrong number: %d", p.status)
	}
	p.has(t, "/bulk", "Invalid maxJobs: want a number", `value="many"`, `aria-invalid="true"`)
}

func TestD07FailedJobsAreGroupedRedrivenAndPurged(t *testing.T) {
	g := open(t, nil)
	g.see(t, "/failed", "OUT_OF_MEMORY", "Retry all…", "Look</a>", "dead letters…", "filter=error%3D")
	p := g.see(t, "/failed/redrive", "redrive: 12 jobs match", `name="stopAfter" type="number" value="3"`, `value="10"`)
	p.lacks(t, "redrive", "disabled>Queue")
	p = g.ask(t, "POST /failed/redrive", form("reason", "no space", "count", "100", "ratePerSecond", "5", "stopAfter", "2", "sure", "yes"))
	if p.status != http.StatusSeeOther {
		t.Errorf("redrive: %d %s", p.status, mainOf(p.body))
	}
	g.ask(t, "POST /failed/redrive", form("count", "9", "sure", "yes", "count-first", "yes")).has(t, "count first", "12 jobs match", `value="9"`)
	g.see(t, "/failed/purge", "Delete old results?", "Type <b>purge</b> to confirm")
	p = g.ask(t, "POST /failed/purge", form("olderThanDays", "30", "limit", "10", "typed", "yes", "sure", "yes"))
	if p.status != http.StatusBadRequest {
		t.Errorf("without the word: %d", p.status)
	}
	p.has(t, "/failed/purge", "Type the word purge to confirm", `value="yes" autocomplete="off"`)
	p = g.ask(t, "POST /failed/purge", form("olderThanDays", "0", "limit", "10", "typed", "purge", "sure", "yes"))
	p.has(t, "/failed/purge", "Invalid olderThanDays: want 1 to 3650")
	g.ask(t, "POST /failed/purge", form("olderThanDays", "30", "limit", "10", "typed", "purge", "sure", "yes"))
	want := []string{`redrive {"count":100,"ratePerSecond":5,"reason":"no space","stopAfter":2}`, `purge {"limit":10,"olderThanDays":30}`}
	if done := g.Utils.Done(); !slices.Equal(done, want) {
		t.Errorf("asked for %q, want %q", done, want)
	}
}

func TestD08ReportsTokensAndChangesAreShown(t *testing.T) {
	guard, _, operate, admin := tokens(t)
	g := open(t, guard)
	cookie := g.login(t, admin)
	g.ask(t, "POST /act", form("do", "cancel", "scope", "fleet", "id", "film-7", "sure", "yes"), "Cookie", cookie)
	g.ask(t, "GET /system", "", "Cookie", cookie).has(t, "/system", "batchfleet 1.2.3", "/var/lib/relay", "812 GB", "operator", "boss", "fleet · cancel", "film-7", "openapi.json", `<span class="badge">submit-batch</span>`)
	g.ask(t, "GET /system", "", "Cookie", g.login(t, operate)).lacks(t, "/system", "<h2>Tokens", "<h2>Changes", "boss")
}

func TestD23ButtonsThatTheTokenDoesNotAllowAreAbsent(t *testing.T) {
	guard, read, operate, admin := tokens(t)
	g := open(t, guard)
	for name, tt := range map[string]struct {
		token    string
		readOnly bool
		may      bool
		revoke   bool
	}{"read": {read, false, false, false}, "operate": {operate, false, true, false}, "admin": {admin, false, true, true}, "read-only": {admin, true, false, false}} {
		g.Server.ReadOnly = tt.readOnly
		cookie := g.login(t, tt.token)
		for path, button := range map[string]string{
			"/jobs/fleet/film-7": `id="cancel"`, "/jobs/fleet/broken-1": `id="retry"`, "/jobs": "retry…", "/workers": "Drain</button>", "/kinds": "Pause</button>", "/failed": "/failed/redrive",
		} {
			p := g.ask(t, "GET "+path, "", "Cookie", cookie)
			if has := strings.Contains(p.body, button); has != tt.may {
				t.Errorf("%s: %s has %q: %t", name, path, button, has)
			}
			if strings.Contains(p.body, "Read-only: things are shown here") != tt.readOnly {
				t.Errorf("%s: %s says that it is read-only, or not", name, path)
			}
		}
		if has := strings.Contains(g.ask(t, "GET /workers", "", "Cookie", cookie).body, "Revoke</button>"); has != tt.revoke {
			t.Errorf("%s: revoke: %t", name, has)
		}
		if p := g.ask(t, "GET /new", "", "Cookie", cookie); (p.status == http.StatusOK) != tt.may {
			t.Errorf("%s: /new: %d", name, p.status)
		}
		if tt.may {
			continue
		}
		for what, body := range map[string]string{
			"/act": form("do", "cancel", "scope", "fleet", "id", "film-7", "sure", "yes"), "/bulk": form("do", "cancel", "filter", "scope=fleet", "sure", "yes"), "/new": form("scope", "fleet", "kind", "pdf"),
			"/failed/purge": form("typed", "purge", "sure", "yes"),
		} {
			if p := g.ask(t, "POST "+what, body, "Cookie", cookie); p.status != http.StatusForbidden {
				t.Errorf("%s: POST %s: %d, want 403", name, what, p.status)
			}
		}
	}
	if done := g.Utils.Done(); len(done) > 0 || g.state(t, "film-7") != jobs.Queued {
		t.Errorf("something was changed: %q", done)
	}
}
