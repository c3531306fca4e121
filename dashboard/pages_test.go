package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/dashboard/dashboardtest"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestD01NowShowsTheFleetAtOneLook(t *testing.T) {
	g := open(t, nil)
	p := g.see(
		t, "/",
		"No live worker runs kind render, and 3 jobs wait: start one", `href="/workers#i-w-gpu-3"`, // warnings
		"2 working", "1 idle", "1 draining", "1 silent", "of 24 slots",
		`href="/jobs?scope=fleet&amp;kind=render"`, "3.0 s", // kinds
		"OUT_OF_MEMORY", `href="/jobs?scope=fleet&amp;error=`, // error groups
		`href="/jobs?scope=fleet&amp;state=failed"`, "dead letters",
		`role="img" aria-label="Last 5 minutes`, "Last 24 hours", "<polyline points=",
	)
	if n := strings.Count(p.body, "<caption"); n < 5 {
		t.Errorf("%d tables have a caption, want 5 and the keys", n)
	}
}

func TestD02JobsAreFoundByWhatTheURLSays(t *testing.T) {
	g := open(t, nil)
	p := g.see(t, "/jobs", `id="r-invoice-2026-11"`, `href="/jobs/fleet/film-7"`, `rel="next"`, "attempt 2")
	p.lacks(t, "/jobs", `rel="prev"`, "Filters in use")
	if n := strings.Count(p.body, "<tr data-row"); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
	for path, want := range map[string]string{
		"state=failed": "broken-1", "kind=thumbnail": "invoice-2026-11", "worker=cpu-1&state=running": "invoice-2026-11", "id=film": "film-7", "q=Invoice": "invoice-2026-11",
		"since=45m&until=15m": "done-1", "error=" + jobapi.Fingerprint("fleet.thumbnail", &jobapi.Error{Code: "OUT_OF_MEMORY", Message: "the program has used more than 2 GB"}): "broken-1",
	} {
		p := g.see(t, "/jobs?scope=fleet&"+path, `id="r-`+want+`"`, "Filters in use", `>Clear all</a>`)
		if n := strings.Count(p.body, "<tr data-row"); n > 49 {
			t.Errorf("%s: %d rows: the filter selects nothing", path, n)
		}
	}
	g.see(t, "/jobs?scope=fleet&state=failed&kind=pdf", `href="/jobs?kind=pdf&amp;scope=fleet" title="Without this filter"`, `href="/jobs?scope=fleet&amp;state=failed" title`)
	g.see(t, "/jobs?limit=9999&state=succeeded", `data-row id="r-01JDQ00000`)
	if n := strings.Count(g.see(t, "/jobs?limit=9999").body, "<tr data-row"); n != 200 {
		t.Errorf("%d rows, want 200 at most", n)
	}
}

func TestD02PagesOfTheListGoOnAndBack(t *testing.T) {
	g := open(t, nil)
	link := func(p page, rel string) string {
		_, rest, ok := strings.Cut(p.body, `rel="`+rel+`" href="`)
		if !ok {
			return ""
		}
		href, _, _ := strings.Cut(rest, `"`)
		return strings.ReplaceAll(href, "&amp;", "&")
	}
	first := g.see(t, "/jobs?scope=fleet&state=succeeded")
	second := g.see(t, link(first, "next"))
	third := g.see(t, link(second, "next"))
	if again := g.see(t, link(third, "prev")); mainOf(again.body) != mainOf(second.body) {
		t.Error("the page before the third is not the second")
	}
	if again := g.see(t, link(second, "prev")); mainOf(again.body) != mainOf(first.body) {
		t.Error("the page before the second is not the first")
	}
}

func TestD02AWrongFilterIsExplainedAndKept(t *testing.T) {
	g := open(t, nil)
	p := g.ask(t, "GET /jobs?scope=fleet&since=yesterday&kind=pdf", "")
	if p.status != http.StatusBadRequest {
		t.Errorf("status %d", p.status)
	}
	p.has(t, "since=yesterday", `role="alert"`, "since", `value="yesterday"`, `value="pdf"`)
}

func TestD02AJobIsFoundByItsID(t *testing.T) {
	g := open(t, nil)
	for q, want := range map[string]string{"film-7": "/jobs/fleet/film-7", "report-12": "/jobs?q=report-12", "no glyphs": "/jobs?q=no+glyphs", "": "/jobs"} {
		p := g.ask(t, "GET /find?q="+strings.ReplaceAll(q, " ", "+"), "")
		if p.status != http.StatusSeeOther || p.header.Get("Location") != want {
			t.Errorf("find %q: %d to %q, want %q", q, p.status, p.header.Get("Location"), want)
		}
	}
}

func TestD03AJobIsShownWhole(t *testing.T) {
	g := open(t, nil)
	g.see(
		t, "/jobs/fleet/invoice-2026-11",
		"Lease ends", "data-down", `href="/workers#w-cpu-1"`, "1 of 3 steps", "75%: 3/4 tiles", "Earlier attempts", "nothing was heard of its worker for 60 s",
		"tile 40 of 40", `data-events="/api/v1/fleet/jobs/invoice-2026-11/events?logs=true" data-on`, "/logs?tailLines=5000", `&#34;dpi&#34;: 300`, `id="cancel"`, "clone=invoice-2026-11",
	).lacks(t, "invoice", `id="retry"`)
	g.see(t, "/jobs/fleet/film-7", "Why it is queued", "NO_WORKER", "No live worker runs kind render: start one that does")
	g.see(t, "/jobs/fleet/broken-1", "OUT_OF_MEMORY", "limitBytes", `id="retry"`, "killed: out of memory").lacks(t, "broken-1", `id="cancel"`, "data-on>")
	g.see(t, "/jobs/fleet/done-1", `src="/jobs/fleet/done-1/artifacts/page-1.png" loading="lazy" sandbox`, `href="/api/v1/fleet/jobs/done-1/artifacts/model.bin" download="model.bin"`, "140 kB", "pages")
	if p := g.ask(t, "GET /jobs/fleet/nothing", ""); p.status != http.StatusNotFound || !strings.Contains(p.body, "No such job") {
		t.Errorf("a job that is not there: %d, %s", p.status, mainOf(p.body))
	}
}

func TestD03ArtifactsAreShownInASandbox(t *testing.T) {
	g := open(t, nil)
	g.Keep("done-1", "evil.txt", []byte("<script>alert(1)</script>"))
	g.Keep("done-1", "evil.svg", []byte("<svg onload=alert(1)>"))
	g.Keep("done-1", "evil.html", []byte("<script>alert(1)</script>"))
	g.Keep("done-1", "large.txt", make([]byte, 5<<20))
	for name, want := range map[string]string{"page-1.png": "image/png", "evil.txt": "text/plain; charset=utf-8", "result.json": "text/plain; charset=utf-8"} {
		p := g.ask(t, "GET /jobs/fleet/done-1/artifacts/"+name, "")
		csp := p.header.Get("Content-Security-Policy")
		if p.status != http.StatusOK || p.header.Get("Content-Type") != want || !strings.HasPrefix(csp, "sandbox; default-src 'none'") || p.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %q, CSP %q", name, p.status, p.header.Get("Content-Type"), csp)
		}
	}
	for _, name := range []string{"evil.svg", "evil.html", "model.bin", "large.txt", "gone.txt"} {
		if p := g.ask(t, "GET /jobs/fleet/done-1/artifacts/"+name, ""); p.status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", name, p.status)
		}
	}
	g.see(t, "/jobs/fleet/done-1").lacks(t, "done-1", "artifacts/evil.svg\" loading", "artifacts/large.txt\" loading")
}

func TestD20PagesAreServedWithoutJavaScriptAndFilledFromTemplates(t *testing.T) {
	g := open(t, nil)
	for _, path := range allPages {
		p := g.see(t, path, `<main id="main"`, `<a class="skip" href="#main">`, `<nav aria-label="Pages">`)
		if strings.HasPrefix(path, "/new") {
			continue // its key is another one each time
		}
		part := g.ask(t, "GET "+path, "", "X-Part", "main")
		if got, want := squeezed(timeless(part.body)), squeezed(timeless(p.body[strings.Index(p.body, "<main"):strings.Index(p.body, "</main>")+7])); got != want {
			t.Errorf("%s: the part is not the main part of the page", path)
		}
		if strings.Contains(p.body, "<style") || strings.Contains(p.body, " style=") || strings.Contains(p.body, " onclick") || strings.Contains(p.body, "<script>") {
			t.Errorf("%s has a style or a script in it", path)
		}
	}
}

// allPages are the pages that have nothing of their own to be given.
var allPages = []string{"/", "/jobs", "/jobs/fleet/invoice-2026-11", "/jobs/fleet/done-1", "/workers", "/kinds", "/failed", "/system", "/new?scope=fleet&kind=pdf"}

// timeless is a page without the times that go on.
func timeless(s string) string {
	for _, mark := range []string{"</dd>", "</td>", "</time>", "</small>"} {
		parts := strings.Split(s, mark)
		for i := range parts[:len(parts)-1] {
			parts[i] = parts[i][:strings.LastIndexByte(parts[i], '>')+1]
		}
		s = strings.Join(parts, mark)
	}
	return s
}

func TestD21TheFirstLoadIsSmall(t *testing.T) {
	g := open(t, nil)
	total := map[string]int{}
	for _, path := range []string{"/", "/jobs", "/jobs/fleet/invoice-2026-11"} {
		p := g.see(t, path)
		total[path] = len(p.body)
		for _, name := range []string{"style.css", "theme.js", "app.js", "chrome.js", "keys.js", "live.js", "log.js", "form.js", "morph.js", "icon.svg"} {
			total[path] += len(g.asset(t, p, name).body)
		}
		if total[path] > 150_000 {
			t.Errorf("%s is %d bytes with all it loads, want 150 000 at most", path, total[path])
		}
	}
	t.Log(total)
}

// asset loads a file from where a page says that they are.
func (g *rig) asset(t *testing.T, p page, name string) page {
	t.Helper()
	_, rest, _ := strings.Cut(p.body, `href="/assets/`)
	hash, _, _ := strings.Cut(rest, "/")
	return g.see(t, "/assets/"+hash+"/"+name)
}

func TestD20AssetsAreKeptForGoodAndSmall(t *testing.T) {
	g := open(t, nil)
	p := g.see(t, "/")
	css := g.asset(t, p, "style.css")
	if css.header.Get("Content-Type") != "text/css; charset=utf-8" || !strings.Contains(css.header.Get("Cache-Control"), "immutable") {
		t.Errorf("style.css: %v", css.header)
	}
	if len(css.body) > 12<<10 {
		t.Errorf("style.css has %d bytes, want 12 KiB at most", len(css.body))
	}
	lines := 0
	for _, name := range []string{"theme.js", "app.js", "chrome.js", "keys.js", "live.js", "log.js", "form.js", "morph.js"} {
		lines += strings.Count(g.asset(t, p, name).body, "\n")
	}
	if lines > 600 {
		t.Errorf("the modules have %d lines, want 600 at most", lines)
	}
	_, rest, _ := strings.Cut(p.body, `href="/assets/`)
	hash, _, _ := strings.Cut(rest, "/")
	if again := g.ask(t, "GET /assets/"+hash+"/style.css", "", "If-None-Match", css.header.Get("ETag")); again.status != http.StatusNotModified {
		t.Errorf("with its ETag: status %d, want 304", again.status)
	}
	for _, path := range []string{"/assets/0123456789abcdef/style.css", "/assets/" + hash + "/doc.go", "/assets/" + hash + "/..%2fdoc.go"} {
		if p := g.ask(t, "GET "+path, ""); p.status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, p.status)
		}
	}
}

func TestD21APageOfManyJobsAsksForOnePageOfThem(t *testing.T) {
	f := dashboardtest.New("fleet")
	now := time.Now()
	for i := range 1500 {
		f.Put(jobapi.Job{ID: fmt.Sprintf("j%05d", i), Type: "fleet.pdf", Status: jobs.Queued, CreatedAt: jobapi.At(now.Add(time.Duration(i) * time.Second))})
	}
	g := over(t, f, nil)
	if n := strings.Count(g.see(t, "/jobs").body, "<tr data-row"); n != 50 {
		t.Errorf("%d rows", n)
	}
}
