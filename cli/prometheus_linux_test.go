package cli

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// boardFile is the Grafana board of all doors.
const boardFile = "../deploy/grafana.json"

// onlyInTrouble are metrics that have no series before something has gone wrong, or before a door has had a job that
// this test does not give it. Of their queries only the form and the names are checked.
var onlyInTrouble = []string{
	"batchfleet_attempts_failed_total", "batchfleet_jobs_handed_back_total", "batchfleet_gateway_failures_total", "batchfleet_gateway_lease_expiries_total",
	"batchfleet_relay_attempts_total", "batchfleet_relay_uploads_total", "batchfleet_grid_attempts_again_total", "batchfleet_jobapi_http_requests_total",
	"batchfleet_jobapi_auth_failures_total",
}

// boardQueries returns the queries of the board by the titles of their panels, with what a person may choose set to all.
func boardQueries(t *testing.T) map[string][]string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(boardFile)
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	chosen := strings.NewReplacer("$job", ".*", "$scope", ".*", "$__rate_interval", "10s")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], chosen.Replace(target.Expr))
		}
	}
	if len(all) < 15 {
		t.Fatalf("the board has only %d panels", len(all))
	}
	return all
}

// testPrometheus is a Prometheus that scrapes processes of the test once a second.
type testPrometheus struct {
	t    *testing.T
	addr string
}

// startPrometheus scrapes the addresses, by the names of their jobs.
func startPrometheus(t *testing.T, targets map[string]string) *testPrometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("Prometheus is not installed, and CI must run every test: %v", err)
		}
		t.Skip("Prometheus is not installed (Debian: apt-get install prometheus)")
	}
	p, dir := &testPrometheus{t, freeAddr(t)}, t.TempDir()
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n"
	for job, addr := range targets {
		config += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: [%q]}]}\n", job, addr)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.addr, "--log.level=warn")
	cmd.Dir = dir
	launch(t, cmd)
	return p
}

// ask returns how many series a query has, and what is wrong with it.
func (p *testPrometheus) ask(query string) (series int, err error) {
	r, err := http.Get("http://" + p.addr + "/api/v1/query?query=" + url.QueryEscape(query)) //nolint:noctx // the test ends with it
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return len(answer.Data.Result), nil
}

// TestD33PrometheusAnswersTheBoard asks a real Prometheus, which scrapes a process of each door, all queries of the board.
func TestD33PrometheusAnswersTheBoard(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "Prometheus does the work")
	f := newTestFleet(t)
	targets := map[string]string{}
	for _, job := range []string{"gateway", "worker", "relay", "grid"} {
		targets[job] = freeAddr(t)
	}
	p := startPrometheus(t, targets)
	launch(t, batchfleet(t, f.environment(), "gateway", "--addr", freeAddr(t), "--metrics-addr", targets["gateway"]))
	launch(t, batchfleet(t, nil, "grid", "leader", "0", "--http", freeAddr(t), "--metrics-addr", targets["grid"]))
	relay := batchfleet(t, []string{"PATH=" + os.Getenv("PATH")}, "relay", "--kinds", "kinds.toml", "--addr", freeAddr(t), "--metrics-addr", targets["relay"], "--min-free-bytes", "0")
	for name, text := range map[string]string{"kinds.toml": "[no]\ncommand = [\"false\"]\n", "relay.token": strings.Repeat("0123456789abcdef", 2)} {
		if err := os.WriteFile(filepath.Join(relay.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	launch(t, relay)
	f.start("HTTP_ADDR=" + targets["worker"])
	if _, err := f.status.Submit(t.Context(), jobs.Job{ID: "waits", Kind: "later", Submitted: time.Now()}); err != nil { // without a message
		t.Fatal(err)
	}
	for i := range 3 {
		f.submit(jobs.ID(fmt.Sprintf("done-%d", i)), 3)
	}
	until(t, time.Minute, "all processes are scraped, and a job has ended", func() bool {
		up, err := p.ask("up == 1")
		ended, err2 := p.ask("rate(batchfleet_jobs_total[10s])")
		return err == nil && err2 == nil && up == len(targets) && ended > 0
	})
	names := regexp.MustCompile(`batchfleet_[a-z_]+`)
	for panel, queries := range boardQueries(t) {
		for _, query := range queries {
			rare := slices.ContainsFunc(names.FindAllString(query, -1), func(name string) bool { return slices.Contains(onlyInTrouble, name) })
			var series int
			var err error
			until(t, time.Minute, fmt.Sprintf("%q has data from %s", panel, query), func() bool {
				series, err = p.ask(query)
				return err != nil || series > 0 || rare
			})
			if err != nil {
				t.Errorf("%q: %s: %v", panel, query, err)
			}
		}
	}
	for _, want := range []string{
		`batchfleet_kind_jobs{scope="fleet",kind="later",state="queued"} == 1`, `batchfleet_workers{scope="fleet",state="idle"} == 1`,
		`batchfleet_scope_jobs_ended_total{scope="fleet",outcome="succeeded"} == 3`, `batchfleet_kind_oldest_seconds{scope="fleet",kind="later"} > 0`,
	} {
		until(t, time.Minute, want, func() bool {
			n, err := p.ask(want)
			return err == nil && n == 1
		})
	}
}

// TestD33BoardNamesMetricsThatThereAre finds the metrics that a healthy fleet does not show, too.
func TestD33BoardNamesMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "it only reads files")
	var source strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(boardFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`batchfleet_[a-z_]+`).FindAllString(string(text), -1) {
		name = strings.TrimSuffix(name, "_bucket")
		known := false
		for _, prefix := range []string{"batchfleet_", "batchfleet_gateway_", "batchfleet_relay_", "batchfleet_grid_", "batchfleet_jobapi_", ""} {
			rest, ok := strings.CutPrefix(name, prefix)
			known = known || ok && strings.Contains(source.String(), `"`+rest+`"`)
		}
		if !known {
			t.Errorf("the board shows %s, which no part has", name)
		}
	}
}
