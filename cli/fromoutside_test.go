package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/cli/program"
)

// answering is a server that answers so, by the method and the path below /api/v1. What is missing is 404.
type answering struct {
	*testing.T
	answers map[string]string
	url     string

	mu    sync.Mutex
	asked []string // method, path, query and body
}

func newAnswering(t *testing.T, answers map[string]string) *answering {
	t.Helper()
	a := &answering{T: t, answers: answers}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		call := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/v1/")
		query, _ := url.QueryUnescape(r.URL.RawQuery)
		a.mu.Lock()
		a.asked = append(a.asked, strings.TrimSpace(strings.TrimSuffix(call+"?"+query, "?")+" "+string(body)))
		a.mu.Unlock()
		text, ok := a.answers[call]
		status := http.StatusOK
		if !ok {
			status, text = http.StatusNotFound, `{"error":{"code":"NOT_FOUND","message":"There is no such route","details":{}}}`
		}
		if strings.HasSuffix(call, "utils/cancel") && !strings.Contains(query, "dryRun") {
			status = http.StatusAccepted
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	a.url = s.URL
	return a
}

// run runs a command against the server.
func (a *answering) run(args ...string) (code int, stdout, stderr string) {
	a.Helper()
	var out, errs bytes.Buffer
	root := rootCommand()
	root.SetArgs(append(args, "--api", a.url))
	root.SetOut(&out)
	root.SetErr(&errs)
	err := root.ExecuteContext(a.Context())
	coded := program.ExitError{}
	if err != nil && !errors.As(err, &coded) {
		coded.Code = program.Usage
	}
	if err != nil {
		fmt.Fprintln(&errs, err)
	}
	return coded.Code, out.String(), strings.ReplaceAll(errs.String(), a.url, "URL")
}

// says runs a command that must end so, and say that.
func (a *answering) says(code int, want string, args ...string) {
	a.Helper()
	got, out, errs := a.run(args...)
	if got != code || !strings.Contains(out+errs, want) {
		a.Errorf("%q: exit code %d, want %d and %q\n%s%s", args, got, code, want, out, errs)
	}
}

// wasAsked checks that a call was made.
func (a *answering) wasAsked(call string) {
	a.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.asked, call) {
		a.Errorf("was not asked %q, but\n%s", call, strings.Join(a.asked, "\n"))
	}
}

func TestD30WhyOnTheCommandLine(t *testing.T) {
	a := newAnswering(t, map[string]string{
		"GET fleet/jobs/a": strings.Replace(aJob, "running", "queued", 1),
		"GET fleet/jobs/a/why": `{"jobId":"a","status":"queued","reasons":[{"code":"PAUSED","message":"Kind pdf is paused: batchfleet kinds resume pdf","since":"2026-01-23T09:00:00.000Z","until":null},` +
			`{"code":"QUEUED","message":"2 jobs come before it","ahead":2,"since":null,"until":null}]}`,
		"GET zpe/jobs/z": `{"jobId":"z","scope":"zpe","type":"zpe.calc","status":"queued"}`,
	})
	code, out, errs := a.run("why", "a")
	if want := "a queued: Kind pdf is paused: batchfleet kinds resume pdf\na queued: 2 jobs come before it\n"; code != 0 || out != want {
		t.Errorf("exit code %d, %q, want %q\n%s", code, out, want, errs)
	}
	a.says(0, `"ahead":2`, "why", "--json", "a")
	a.says(1, "this server does not tell why jobs of zpe wait; `batchfleet get z --api URL` shows what is known", "why", "z")
	a.says(1, "no such job", "why", "b")
	a.says(2, "must begin with a letter or digit", "why", "../x")
}

func TestD31ListTakesTheWholeFilter(t *testing.T) {
	a := newAnswering(t, map[string]string{"GET fleet/jobs": `{"items":[],"nextCursor":""}`})
	a.says(0, "JOB", "list", "--scope", "fleet", "--kind", "pdf", "--worker", "w 1", "--id-prefix", "01K", "--error", "0123456789abcdef", "--text", "no space", "--since", "2026-01-31T12:00:00+02:00", "--until", "2026-02-01T00:00:00Z", "--limit", "7")
	a.wasAsked("GET fleet/jobs?error=0123456789abcdef&id_prefix=01K&limit=7&q=no space&since=2026-01-31T10:00:00Z&type=fleet.pdf&until=2026-02-01T00:00:00Z&worker=w 1")
	for flag, value := range map[string]string{"--error": "xyz", "--id-prefix": "../x", "--since": "yesterday", "--until": "0s", "--text": strings.Repeat("x", 201), "--worker": strings.Repeat("x", 257)} {
		a.says(2, flag, "list", flag, value)
	}
}

// TestD31ListGoesOnUntilItIsFull over pages that are short, because the server looks at some jobs at a time.
func TestD31ListGoesOnUntilItIsFull(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.Header().Set("Content-Type", "application/json")
		items := ""
		if calls%2 == 0 {
			items = strings.Replace(aJob, `"a"`, fmt.Sprintf(`"a%d"`, calls), 1)
		}
		if want := map[bool]string{true: "", false: fmt.Sprint("c", calls-1)}[calls == 1]; r.FormValue("cursor") != want {
			t.Errorf("call %d: cursor %q, want %q", calls, r.FormValue("cursor"), want)
		}
		_, _ = fmt.Fprintf(w, `{"items":[%s],"nextCursor":"c%d"}`, items, calls)
	}))
	t.Cleanup(s.Close)
	a := &answering{T: t, url: s.URL}
	code, out, errs := a.run("list", "--scope", "fleet", "--text", "x", "--limit", "3", "--json")
	if code != 0 || strings.Count(out, "\n") != 3 || calls != 6 || errs != "more: batchfleet list --scope fleet --api URL --json --limit 3 --text x --cursor c6\n" {
		t.Errorf("exit code %d after %d calls\n%s%s", code, calls, out, errs)
	}
}

const anOverview = `{"at":"2026-01-23T09:10:00.000Z","scopes":[
 {"name":"fleet","states":{"queued":12,"running":3,"succeeded":400,"failed":7,"canceled":1},"deadLetters":5,"recent":[],"day":[],
  "kinds":[{"kind":"pdf","queued":12,"running":3,"oldestQueuedAt":"2026-01-23T09:00:00.000Z","pausedSince":"2026-01-23T09:05:00.000Z","workers":2,"slots":8,"wait":{"p50Ms":1500,"p95Ms":65000,"p99Ms":90000,"n":200},"run":null}]},
 {"name":"zpe","unavailable":"Redis does not answer","states":{},"kinds":[],"deadLetters":null,"recent":[],"day":[]}],
 "workers":{"working":2,"idle":1,"draining":0,"unready":0,"silent":1,"slots":8,"jobs":3},
 "errors":[{"fingerprint":"0123456789abcdef","scope":"fleet","type":"fleet.pdf","code":"FAILED","message":"no space left","count":6,"newestAt":"2026-01-23T09:09:00.000Z","jobId":"a"}],
 "warnings":[{"code":"SILENT_WORKER","message":"Nothing was heard of worker-7","scope":"fleet","worker":"worker-7","since":"2026-01-23T09:08:00.000Z"}]}`

func TestD01OverviewOnTheCommandLine(t *testing.T) {
	a := newAnswering(t, map[string]string{"GET overview": anOverview})
	code, out, errs := a.run("overview")
	want := []string{
		"SILENT_WORKER: Nothing was heard of worker-7 (for 2m)", "fleet  12      3        400        7       1         5", "zpe: Redis does not answer",
		"pdf   fleet  12      3        10m     2        8      1.5s/1m5s       for 5m", "workers: 2 working, 1 idle, 0 draining, 0 not ready, 1 silent; 3 of 8 slots in use",
		"6       pdf   1m      0123456789abcdef  no space left",
	}
	for _, line := range want {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("it lacks %q", line)
		}
	}
	if code != 0 || t.Failed() {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	a.says(0, `"fingerprint":"0123456789abcdef"`, "overview", "--json")
	newAnswering(t, nil).says(1, "this server gives no overview", "overview")
}

func TestD06KindsArePausedOnTheCommandLine(t *testing.T) {
	kind := func(name string) string {
		return `{"items":[{"name":"` + name + `","params":null,"input":"one","workers":2,"slots":8,"queued":4,"running":1,"oldestQueuedAt":null,"pausedSince":null,"wait":null,"run":null}]}`
	}
	a := newAnswering(t, map[string]string{
		"GET fleet/kinds": kind("pdf"), "GET gateway/kinds": kind("thumbnail"), "GET relay/kinds": kind("thumbnail"),
		"POST fleet/kinds/pdf/pause":         `{"kind":"pdf","pausedSince":"2026-01-23T09:00:00.000Z"}`,
		"POST fleet/kinds/pdf/resume":        `{"kind":"pdf","pausedSince":null}`,
		"POST gateway/kinds/thumbnail/pause": `{"kind":"thumbnail","pausedSince":"2026-01-23T09:00:00.000Z"}`,
		"POST zpe/kinds/calc/pause":          `{"kind":"calc","pausedSince":"2026-01-23T09:00:00.000Z"}`,
	})
	a.says(0, "thumbnail  gateway  4       1                2        8", "kinds", "status")
	a.says(0, "pdf of fleet is paused since ", "kinds", "pause", "pdf")
	a.says(0, "pdf of fleet is not paused", "kinds", "resume", "pdf")
	a.says(2, "--scope is needed: gateway and relay have a kind thumbnail", "kinds", "pause", "thumbnail")
	a.says(0, "thumbnail of gateway is paused", "kinds", "pause", "--scope", "gateway", "thumbnail")
	a.says(0, "thumbnail of gateway is paused", "kinds", "pause", "gateway.thumbnail")
	a.says(0, "calc of zpe is paused", "kinds", "pause", "zpe")
	a.says(1, `"other" is no kind that this server knows`, "kinds", "pause", "other")
	a.says(1, "lists the kinds that this server can pause", "kinds", "pause", "--scope", "grid", "calcA")
	newAnswering(t, nil).says(1, "this server tells of no kinds of scope relay", "kinds", "status", "--scope", "relay")
}

func TestD05WorkersAreDrainedOnTheCommandLine(t *testing.T) {
	a := newAnswering(t, map[string]string{
		"GET fleet/workers": `{"items":[{"workerId":"p1","name":"one","kinds":["pdf"],"slots":2,"jobs":1,"state":"working"},{"workerId":"p2","name":"two","kinds":[],"state":"idle"},` +
			`{"workerId":"p3","name":"two","kinds":[],"state":"idle"},{"workerId":"p0","name":"one","kinds":[],"state":"silent"}]}`,
		"GET zpe/workers":              `{"items":[{"workerId":"w-1","name":"agent","kinds":["zpe"],"state":"idle"}]}`,
		"GET gateway/workers":          `{"items":[{"workerId":"w-1","name":"agent","kinds":["zpe"],"state":"idle"}]}`,
		"POST fleet/workers/p1/drain":  `{"workerId":"p1"}`,
		"POST fleet/workers/p1/resume": `{"workerId":"p1"}`,
		"POST fleet/workers/p3/drain":  `{"workerId":"p3"}`,
		"GET grid/workers":             `{"items":[]}`,
	})
	code, out, errs := a.run("workers", "--json")
	if code != 0 || strings.Count(out, `"w-1"`) != 1 || strings.Count(out, "\n") != 5 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	a.says(0, "one takes no more jobs", "workers", "drain", "one")
	a.says(0, "one takes jobs again", "workers", "resume", "p1")
	a.says(2, "2 workers have this name: give the id of one", "workers", "drain", "two")
	a.says(0, "two takes no more jobs", "workers", "drain", "p3")
	a.says(1, "no live worker has this name or id", "workers", "drain", "three")
	a.says(1, "workers of scope zpe may be none that can be told to drain", "workers", "drain", "agent")
	a.says(0, "w-1 (agent)", "workers", "--scope", "zpe")
}

func TestD31RunCancelSaysWhichJobs(t *testing.T) {
	a := newAnswering(t, map[string]string{
		"POST utils/cancel": `{"jobId":"job_01KDZ3NDEKTSV4RRFFQ69G5FAV","scope":"utils","type":"utils.cancel","status":"queued","createdAt":null}`,
		"POST utils/retry":  `{"dryRun":true,"scope":"utils","type":"utils.retry","steps":[{"step":"count","action":"run","reason":"12 jobs: a, b"}]}`,
	})
	a.says(0, "job_01KDZ3NDEKTSV4RRFFQ69G5FAV", "run", "cancel", "--scope", "fleet", "--kind", "pdf", "--state", "queued", "--worker", "w", "--rate", "2.5", "--max", "10", "--stop-after-errors", "3", "--timeout", "10m")
	a.wasAsked(`POST utils/cancel {"kind":"pdf","maxJobs":10,"ratePerSecond":2.5,"scope":"fleet","status":"queued","stopAfterErrors":3,"timeoutMs":600000,"worker":"w"}`)
	a.says(0, "12 jobs: a, b", "run", "retry", "--scope", "zpe", "--kind", "zpe", "--text", "no space", "--dry-run")
	a.wasAsked(`POST utils/retry?dryRun=true {"kind":"calc","maxJobs":1000000,"q":"no space","ratePerSecond":50,"scope":"zpe","stopAfterErrors":20}`)
	a.says(0, "", "run", "cancel", "--scope", "relay", "--all")
	a.wasAsked(`POST utils/cancel {"all":true,"maxJobs":1000000,"ratePerSecond":50,"scope":"relay","stopAfterErrors":20}`)
	for _, tt := range []struct{ line, want string }{
		{"cancel --all", "--scope is needed"},
		{"cancel --scope system --all", `--scope is "system": want fleet`},
		{"cancel --scope fleet", "nothing says which jobs: give --kind"},
		{"retry --scope fleet --all --kind pdf", "--all is for all jobs of the scope"},
		{"cancel --scope fleet --state failed", `--state is "failed": want queued or running`},
		{"retry --scope fleet --kind gateway.x", `--kind is "gateway.x", and --scope is fleet`},
		{"retry --scope fleet --all --rate 0", "--rate is 0: must be from 0.01 to 1000"},
		{"retry --scope fleet --all --max 0", "--max is 0: must be from 1 to 1000000"},
		{"retry --scope fleet --all --stop-after-errors 1001", "--stop-after-errors is 1001: must be from 1 to 1000"},
		{"retry --scope fleet --since 1x", "--since: "},
		{"retry --scope fleet --all --dry-run --watch", "--dry-run makes no job to --watch"},
		{"retry --scope fleet --all --timeout 1ms", "--timeout is 1ms: must be from 1s to 24h0m0s"},
	} {
		a.says(2, tt.want, append([]string{"run"}, strings.Fields(tt.line)...)...)
	}
}
