package cli

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/jobapi/engine"
)

// put copies a fixture into the storage of the fleet.
func (d *devFleet) put(name, fixture string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join("../pdf/testdata", fixture))
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "dev_storage", name), text, 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func TestJ07JobCommandsAgainstDev(t *testing.T) {
	t.Parallel()
	d := startDev(t, "MOCK_PAGE_SECONDS=30", "DRAIN_TIMEOUT=1s")
	d.put("a.pdf", "groff.pdf")
	d.put("b.pdf", "groff.pdf")

	d.want(0, `(?s)^STEP +ACTION +REASON\nredis +run .*topic +skip `, "job", "run", "start", "--dry-run")
	d.want(0, `(?m)succeeded \d/\d`, "job", "run", "start", "--watch")
	// real documents, as one operation
	d.want(0, `succeeded 3/3  wait: 2 succeeded, 0 failed, 0 canceled`,
		"job", "run", "submit-batch", "--data", `{"objects":["a.pdf","b.pdf"],"pollIntervalMs":200}`, "--watch", "--timeout", "1m")
	d.want(1, `OBJECTS_MISSING: 1 of 1 objects are not there`, "job", "run", "submit-batch", "--data", `{"objects":["nobody.pdf"]}`, "--watch")
	list := d.want(0, `(?s)^JOB +KIND.*utils.submit-batch +failed.*pdf +succeeded.*utils.submit-batch +succeeded.*system.start +succeeded`, "job", "list")
	fleetJob := regexp.MustCompile(`(?m)^(\S+) +pdf`).FindStringSubmatch(list)[1]
	d.want(0, `(?s)kind +pdf\nstate +succeeded.*STEP +STATE.*fetch +succeeded.*pages +succeeded.*store +succeeded`, "job", "get", fleetJob)
	d.want(0, `"jobId":"`+fleetJob+`"`, "job", "get", "--json", fleetJob)
	d.want(0, `attempt 1 completed\n$`, "job", "logs", fleetJob)
	d.want(0, `attempt 1 completed\n$`, "job", "logs", "-f", fleetJob)
	d.want(0, `succeeded 3/3`, "job", "watch", fleetJob)
	out := d.want(0, `more: batchfleet job list --scope fleet --limit 1 --cursor`, "job", "list", "--scope", "fleet", "--limit", "1")
	_, _, stderr := d.run("job", "list", "--scope", "fleet", "--limit", "1")
	cursor := stderr[strings.LastIndex(strings.TrimSpace(stderr), " ")+1:]
	if next := d.want(0, " pdf ", "job", "list", "--scope", "fleet", "--cursor", strings.TrimSpace(cursor)); next == out {
		t.Errorf("the next page is the first one:\n%s", next)
	}
	d.want(0, `utils.submit-batch +failed`, "job", "list", "--status", "failed")

	// An operation that is canceled leaves its jobs alone; they are canceled themselves.
	batch := strings.TrimSpace(d.want(0, `^job_[0-9A-Z]{26}\n$`, "job", "run", "utils.submit-batch", "--data", `{"objects":["a.pdf"],"kind":"mock"}`))
	slow := ""
	for deadline := time.Now().Add(time.Minute); slow == ""; {
		_, out, _ := d.run("job", "list", "--type", "fleet.mock", "--status", "running")
		if m := regexp.MustCompile(`(?m)^(\S+) +mock`).FindStringSubmatch(out); m != nil {
			slow = m[1]
		}
		if time.Now().After(deadline) {
			t.Fatalf("no mock job runs:\n%s", out)
		}
	}
	d.want(0, "is canceled", "job", "cancel", batch)
	d.want(1, `CONFLICT`, "job", "cancel", batch)
	d.want(1, "canceled", "job", "watch", batch)
	d.want(0, "jobs that are published go on", "job", "logs", batch)
	d.want(0, "is canceled", "job", "cancel", "--wait", slow)
	d.want(1, "is canceled", "job", "watch", slow)

	d.want(1, "no such job", "job", "get", "nobody")
	d.want(2, "INVALID_ARGUMENT: .*olderThanDays", "job", "run", "purge")
	d.want(1, "(CONFLICT|FAILED_PRECONDITION).*", "job", "run", "redrive")
	d.want(1, "cancel job nobody: no such job", "job", "cancel", "nobody")
	d.want(3, "(?s)cannot be reached.*--api .or BATCHFLEET_API. says where", "job", "run", "start", "--api", "http://127.0.0.1:1")

	// It stops in time, whatever an operation waits for.
	d.want(0, `.`, "job", "run", "submit-batch", "--data", `{"objects":["a.pdf"],"kind":"mock"}`)
	if code, took := d.process.terminate(); code != 0 || took > 15*time.Second {
		t.Errorf("dev ended with code %d after %s\n%s", code, took, d.process.log)
	}
}

// startOpenGateway starts a gateway with these variables and flags, and waits
// until it is ready.
func (g *testGateway) startOpenGateway(more []string, args ...string) (*process, string) {
	g.t.Helper()
	addr := freeAddr(g.t)
	p := g.startProcess(g.environment(g.atRedis(more...)...), append([]string{"gateway", "--addr", addr}, args...)...)
	g.untilReadyz(addr, http.StatusOK)
	return p, "http://" + addr
}

// TestJ09GatewayWithoutTokensIsOpenToItsMachineAlone has no fleet either.
func TestJ09GatewayWithoutTokensIsOpenToItsMachineAlone(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	const record = `{"topic":"projects/p/topics/t","subscription":"projects/p/subscriptions/s"}`
	if err := g.rdb.HSet(t.Context(), "fleet:queues", "default", record).Err(); err != nil { // of a fleet that others look after
		t.Fatal(err)
	}
	p, url := g.startOpenGateway(nil)
	for _, tt := range []struct {
		name, host string
		header     [2]string
		status     int
	}{
		{"this machine", "", [2]string{}, 200},
		{"a name that leads here", "evil.example.com", [2]string{}, 403},
		{"a proxy", "", [2]string{"X-Forwarded-For", "192.0.2.1"}, 403},
		{"another site's page", "", [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/system/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		if tt.header[0] != "" {
			req.Header.Set(tt.header[0], tt.header[1])
		}
		resp, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, resp.StatusCode, tt.status)
		}
	}
	if !strings.Contains(p.log.String(), "the Job API is open to everybody on this machine") {
		t.Errorf("it does not warn:\n%s", p.log)
	}
	// Without GCP_PROJECT_ID there is no fleet to act on, and nothing is made for one.
	code, out, stderr := g.runCommand([]string{"JOB_API=" + url}, "job", "run", "start", "--dry-run")
	if code != 0 || !strings.Contains(out, "GCP_PROJECT_ID") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	if code, out, stderr = g.runCommand([]string{"JOB_API=" + url}, "job", "run", "start", "--watch"); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	if now, err := g.rdb.HGetAll(t.Context(), "fleet:queues").Result(); err != nil || len(now) != 1 || now["default"] != record {
		t.Errorf("on record are %v, %v; want what was there", now, err)
	}
	left, err := os.ReadDir(p.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("it has made %v, %v", left, err)
	}
	// J-26: a restart forgets them.
	if _, out, _ := g.runCommand([]string{"JOB_API=" + url}, "job", "list", "--scope", "system", "--json"); !strings.Contains(out, "job_") {
		t.Fatalf("no job is listed: %s", out)
	}
	p.kill()
	_, url = g.startOpenGateway(nil)
	if code, out, _ := g.runCommand([]string{"JOB_API=" + url}, "job", "list", "--scope", "system", "--json"); code != 0 || out != "" {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestJ09GatewayForOthersIsClosedWithoutTokens asks as a proxy does that leaves no
// mark, such as nginx with HTTP/1.1: like a caller on this machine.
func TestJ09GatewayForOthersIsClosedWithoutTokens(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	client := g.write("client.token", "client-token-of-the-tests-0123456789\n")
	for name, args := range map[string][]string{
		"a client token":  {"--client-token-file", client},
		"a trusted proxy": {"--trusted-proxy", "10.0.0.0/8"},
		"open submission": {"--open-submission"},
	} {
		p, url := g.startOpenGateway(nil, args...)
		for _, what := range []string{"GET /api/v1/system/jobs", "GET /api/v1/openapi.json", "POST /api/v1/utils/purge"} {
			method, path, _ := strings.Cut(what, " ")
			r, err := g.request(method, url+path, "", nil)
			if err != nil || r.status != http.StatusUnauthorized || !strings.Contains(string(r.body), "--job-tokens-file") {
				t.Errorf("with %s, %s: %d %s, %v", name, what, r.status, r.body, err)
			}
		}
		if !strings.Contains(p.log.String(), "the Job API is closed") {
			t.Errorf("with %s it does not warn:\n%s", name, p.log)
		}
	}
}

// TestJ01TokensOfTheJobAPIOpenNoOtherRoutes asks a gateway's own routes with the
// best token that the Job API has.
func TestJ01TokensOfTheJobAPIOpenNoOtherRoutes(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	listed, token := filepath.Join(g.dir, "tokens"), filepath.Join(g.dir, "job-admin")
	if code, _, stderr := g.runCommand(nil, "token", "new", "--file", listed, "--name", "x", "--scope", "admin", "--out", token); code != 0 {
		t.Fatal(stderr)
	}
	_, url := g.startOpenGateway(nil, "--job-tokens-file", listed, "--admin-token-file", g.write("operator.token", testAdmin+"\n"))
	env := []string{"BATCHFLEET_API=" + url, "BATCHFLEET_TOKEN_FILE=" + token}
	for _, command := range []string{"dlq list --scope zpe", "workers enroll", "workers revoke w-1"} {
		if code, out, stderr := g.runCommand(env, strings.Fields(command)...); code == 0 || out != "" || !strings.Contains(stderr, "Not the admin token") {
			t.Errorf("%s: exit code %d, %s%s", command, code, out, stderr)
		}
	}
	if code, _, stderr := g.runCommand(env, "run", "fsck", "--dry-run"); code != 0 {
		t.Errorf("the Job API itself: exit code %d, %s", code, stderr)
	}
	// Nothing has asked for a client token.
	if r, err := g.request(http.MethodPost, url+"/calc/zpe/jobs", "", h2Payload); err != nil || r.status != http.StatusOK {
		t.Errorf("submit without a token: %d %s %v", r.status, r.body, err)
	}
}

// TestJ01GatewayKnowsItsTokens gives one out and takes it back while it runs.
func TestJ01GatewayKnowsItsTokens(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	tokens := filepath.Join(g.dir, "tokens")
	give := func(name, scope string) string {
		t.Helper()
		code, out, stderr := g.runCommand(nil, "token", "new", "--file", tokens, "--name", name, "--scope", scope, "--ttl", "90d")
		if code != 0 {
			t.Fatalf("token new: exit code %d: %s", code, stderr)
		}
		return strings.TrimSpace(out)
	}
	reader := give("reader", "read")
	p, url := g.startOpenGateway(nil, "--job-tokens-file", tokens)
	if log := p.log.String(); !regexp.MustCompile(`gateway started.*job_tokens"?[=:]1\b.*read_only"?[=:]false`).MatchString(log) {
		t.Errorf("at start it says: %s", log)
	}
	status := func(method, path, token string) int {
		t.Helper()
		r, err := g.request(method, url+path, token, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.status
	}
	if a, b, c := status("GET", "/api/v1/fleet/jobs", ""), status("GET", "/api/v1/fleet/jobs", reader), status("POST", "/api/v1/utils/purge", reader); a != 401 || b != 200 || c != 403 {
		t.Errorf("without a token %d, with it %d, beyond its scope %d: want 401, 200, 403", a, b, c)
	}
	admin := give("root", "admin")
	until(g.t, time.Minute, "the new token is known", func() bool { return status("POST", "/api/v1/system/fsck", admin) == 202 })
	if code, _, stderr := g.runCommand([]string{"JOB_API=" + url, "JOB_TOKEN_FILE=" + g.write("reader", reader)}, "job", "list", "--scope", "system"); code != 0 {
		t.Errorf("job list: exit code %d: %s", code, stderr)
	}
	code, _, stderr := g.runCommand([]string{"JOB_API=" + url}, "job", "list")
	if code != 2 || !strings.Contains(stderr, "--token-file") {
		t.Errorf("job list without a token: exit code %d: %s", code, stderr)
	}
	if code, out, _ := g.runCommand(nil, "token", "revoke", "--file", tokens, "reader"); code != 0 {
		t.Errorf("token revoke: exit code %d: %s", code, out)
	}
	until(g.t, time.Minute, "the token is refused", func() bool { return status("GET", "/api/v1/fleet/jobs", reader) == 401 })
	if strings.Contains(p.log.String(), reader) || strings.Contains(p.log.String(), admin) {
		t.Errorf("the log shows a token:\n%s", p.log)
	}
}

// TestJ30GatewayStopsItsOperations stops a gateway in the middle of a redrive. The
// operation ends in order and so hands back its dead letters at once. Those of a killed
// server come back after half a minute.
func TestJ30GatewayStopsItsOperations(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.failing(3)
	g := &testGateway{t: t, redis: f.redis, rdb: f.rdb, dir: t.TempDir()}
	p, url := g.startOpenGateway(f.environment(keepsDead))
	code, id, stderr := g.runCommand([]string{"JOB_API=" + url}, "job", "run", "redrive", "--data", `{"ratePerSecond":0.01}`)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	watch := g.startProcess(g.environment("JOB_API="+url), "job", "watch", strings.TrimSpace(id))
	until(g.t, time.Minute, "one job is redriven", func() bool { return strings.Contains(watch.log.String(), "1 of 3 jobs looked at") })
	code, took := p.terminate()
	if code != 0 || took > 25*time.Second || strings.Contains(p.log.String(), "operations had not ended when the server stopped") {
		t.Errorf("exit code %d after %s\n%s", code, took, p.log) // the next one's turn comes after 100 s
	}
	if left := f.rows(); len(left) != 2 {
		t.Errorf("the dead letters are %+v, want two", left)
	}
}

// TestJ20GatewayRefusesBadLimits of the Job API and of a fleet.
func TestJ20GatewayRefusesBadLimits(t *testing.T) {
	t.Parallel()
	g := &testGateway{t: t, dir: t.TempDir()}
	broken := g.write("tokens", "me admin canary-of-a-token\n")
	for _, tt := range []struct {
		name      string
		env, args []string
		says      []string
	}{
		{
			"limits",
			[]string{"JOB_API_MAX_RUNNING_UTILS=0", "JOB_API_MAX_LOAD=3", "JOB_API_MAX_QUEUED=1001", "JOB_API_RETAIN=x", "JOB_API_LOG_BUDGET=1", "JOB_API_TIMEOUT=0", "JOB_API_MAX_BATCH_SIZE=1001", "JOB_API_MAX_CONCURRENCY=0"},
			nil,
			[]string{"JOB_API_MAX_RUNNING_UTILS", "JOB_API_MAX_LOAD", "JOB_API_MAX_QUEUED", "JOB_API_RETAIN", "JOB_API_LOG_BUDGET", "JOB_API_TIMEOUT", "JOB_API_MAX_BATCH_SIZE", "JOB_API_MAX_CONCURRENCY"},
		},
		{"a fleet", []string{"GCP_PROJECT_ID=p", "STORAGE_TYPE=AZURE", "PUBSUB_EMULATOR_HOST=http://x"}, nil, []string{"STORAGE_TYPE", "PUBSUB_EMULATOR_HOST"}},
		{"tokens", nil, []string{"--job-tokens-file", broken}, []string{"--job-tokens-file", "line 1"}},
		{"no tokens", nil, []string{"--job-tokens-file", filepath.Join(g.dir, "missing")}, []string{"--job-tokens-file", "no such file", "batchfleet token new"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := g.runCommand(tt.env, append([]string{"gateway", "--addr", "127.0.0.1:0"}, tt.args...)...)
			if code != 2 || strings.Contains(stderr, "canary") {
				t.Errorf("exit code %d, want 2: %s", code, stderr)
			}
			for _, word := range tt.says {
				if !strings.Contains(stderr, word) {
					t.Errorf("stderr does not say %q:\n%s", word, stderr)
				}
			}
		})
	}
	if code, _, stderr := g.runCommand(nil, "dev", "--http-addr", "0.0.0.0:8080"); code != 2 || !strings.Contains(stderr, "not on loopback") {
		t.Errorf("dev: exit code %d: %s", code, stderr)
	}
}

// TestJ20LimitsReachTheEngines from the environment.
func TestJ20LimitsReachTheEngines(t *testing.T) {
	s := openJobServer(t.Context(), jobServerConfig{
		env: JobAPIEnv{MaxUtils: 2, MaxLoad: 2, MaxQueued: 3, Retain: 4}, metrics: prometheus.NewRegistry(), log: slog.New(slog.DiscardHandler),
	})
	want := engine.Limits{MaxRunning: 2, MaxLoad: 2, MaxQueued: 3, Retain: 4}
	if got := s.engines[1].Limits; got != want {
		t.Errorf("limits of utils are %+v, want %+v", got, want)
	}
	for _, e := range s.engines {
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
