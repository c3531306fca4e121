package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// needQE skips the test where Quantum ESPRESSO is not installed; on CI it fails.
func needQE(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("pw.x")
	_, err2 := os.Stat("/usr/share/espresso/pseudo/H.pbe-kjpaw.UPF")
	if err := errors.Join(err, err2); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("Quantum ESPRESSO is not installed, and CI must run every test: %v", err)
		}
		t.Skip("Quantum ESPRESSO is not installed (Debian: apt-get install quantum-espresso quantum-espresso-data)")
	}
}

// TestZ77ZeroPointEnergyOfH2 is the acceptance of the contract: from a submitted
// job over a gateway and an agent to pw.x and back.
func TestZ77ZeroPointEnergyOfH2(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "the work is done by pw.x")
	needQE(t)
	g, url := runningGateway(t, "LEASE_TTL=30s")
	g.startAgent("qe", url, g.register(url, "lab-pc"), "PROCESSOR=zpe")
	payload, err := os.ReadFile("../processor/zpe/testdata/h2.json")
	if err != nil {
		t.Fatal(err)
	}
	// A smaller box is half the work, and right to one percent: processor/zpe has the exact number.
	smaller := strings.Replace(string(payload), `"cell_angstrom":6.5`, `"cell_angstrom":5.3`, 1)
	if smaller == string(payload) {
		t.Fatalf("the cell of %s is not 6.5", payload)
	}
	id := g.submit(url, smaller)
	g.untilStatus(4*time.Minute, url, id, "finished")

	var answer struct {
		Result struct {
			ZPE   float64   `json:"zpe_ev"`
			Freqs []float64 `json:"freqs_cm"`
		} `json:"result"`
	}
	g.call(http.MethodGet, url+wire.PathJobs+"/"+id+"/result", "", nil, &answer)
	if r := answer.Result; r.ZPE < 0.26 || r.ZPE > 0.28 || len(r.Freqs) != 1 {
		t.Errorf("ZPE of H2 is %g eV from modes %v, want 0.26 to 0.28 from one", r.ZPE, r.Freqs)
	}
	for kind, want := range map[string]string{"summary": "Zero-point energy: 0.26", "freqs": "mode,frequency_cm"} {
		r, err := g.request(http.MethodGet, url+wire.PathJobs+"/"+id+"/files?kind="+kind, "", nil)
		if err != nil || r.status != http.StatusOK || !strings.Contains(string(r.body), want) {
			t.Errorf("file %s: %d %s %v", kind, r.status, r.body, err)
		}
	}
	// A job without its pseudopotential fails, reports why, and waits for another worker.
	const pseudo = "H.pbe-rrkjus.UPF"
	id = g.submit(url, strings.Replace(string(payload), `"structure":{`, `"structure":{"species":{"H":{"pseudo":"`+pseudo+`"}},`, 1))
	until(g.t, time.Minute, "the failure is reported", func() bool { return g.job(url, id).RetryCount == 1 })
	if a := g.job(url, id); a.Status != "queued" || a.ErrorCode != "PSEUDO_MISSING" || !strings.Contains(a.Detail, pseudo) {
		t.Errorf("job %+v, want it queued again after PSEUDO_MISSING that names %s", a, pseudo)
	}
}

func TestZ29DirectModeLeasesFromTheSameQueue(t *testing.T) {
	t.Parallel()
	g, url := runningGateway(t, "LEASE_TTL=600s")
	source := fmt.Sprintf("redis://%s:%d/0", g.redis.Host, g.redis.Port)
	g.startAgent("direct", source, "", "WORKER_NAME=inside", "LEASE_SKEW=500ms", "MOCK_PAGES=2")
	id := g.submit(url, h2Payload)
	g.untilStatus(time.Minute, url, id, "finished")
	if a := g.job(url, id); a.WorkerID != "inside" {
		t.Errorf("job was run by %q, want the worker that reaches Redis itself", a.WorkerID)
	}
}

func TestZ29RestartedDirectWorkerReportsWhatItWasKilledIn(t *testing.T) {
	t.Parallel()
	g, url := runningGateway(t, "LEASE_TTL=600s")
	source := fmt.Sprintf("redis://%s:%d/0", g.redis.Host, g.redis.Port)
	worker := g.startAgent("direct", source, "", "WORKER_NAME=inside", "MOCK_PAGES=1000", "MOCK_PAGE_SECONDS=1")
	id := g.submit(url, h2Payload)
	until(g.t, time.Minute, "the job runs", func() bool { return g.job(url, id).Progress != nil })
	worker.kill()
	g.startAgent("direct", source, "", "WORKER_NAME=inside")
	// Not when the lease of 600 s is over, but now.
	until(g.t, time.Minute, "the failure is reported", func() bool { return g.job(url, id).RetryCount == 1 })
	if a := g.job(url, id); a.ErrorCode != "WORKER_RESTART" {
		t.Errorf("job %+v, want error code WORKER_RESTART", a)
	}
}

func TestZ29AgentHasNoRedisClient(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../cmd/zpe-worker").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := string(out)
	if !strings.Contains(deps, "batchfleet/gateway\n") {
		t.Fatalf("zpe-worker is no agent:\n%s", deps)
	}
	for _, never := range []string{"redis", "gateway/queue", "gateway/control", "batchfleet/status"} {
		if strings.Contains(deps, never) {
			t.Errorf("the program of agents depends on %s", never)
		}
	}
}

// TestZ79ResultOutlivesGatewayAndAgent has both die between the end of a job and
// the delivery of its result.
func TestZ79ResultOutlivesGatewayAndAgent(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	g := newTestGateway(t)
	addr := freeAddr(t)
	url, ttl := "http://"+addr, "LEASE_TTL=300s"
	gw := g.startGateway(addr, ttl)
	token := g.register(url, "pc")
	agent := g.startAgent("pc", url, token, "MOCK_PAGES=1", "MOCK_PAGE_SECONDS=10")
	id := g.submit(url, h2Payload)
	until(g.t, time.Minute, "the job runs", func() bool { return g.job(url, id).Progress != nil })
	gw.kill()
	until(g.t, time.Minute, "the result is on the agent's disk", func() bool {
		return g.found(filepath.Join("agents", "pc", "store"), "result.json")
	})
	<-time.After(time.Second) // the agent sends it, and no gateway answers
	agent.kill()
	g.startGateway(addr, ttl)
	if s := g.job(url, id).Status; s != "started" {
		t.Fatalf("job is %s before its agent is back", s)
	}
	g.startAgent("pc", url, token, "MOCK_PAGES=1", "MOCK_PAGE_SECONDS=10")
	g.untilStatus(time.Minute, url, id, "finished")
	if n := g.job(url, id).RetryCount; n != 0 {
		t.Errorf("job was run again %d times", n)
	}
	until(g.t, time.Minute, "the agent has cleaned up", func() bool {
		return !g.found(filepath.Join("agents", "pc", "store"), "result.json")
	})
}

// found reports whether a file of that name is below dir.
func (g *testGateway) found(dir, name string) (found bool) {
	g.t.Helper()
	err := filepath.WalkDir(filepath.Join(g.dir, dir), func(_ string, d fs.DirEntry, err error) error {
		found = found || d != nil && d.Name() == name
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile, or not yet there
		}
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return found
}

func TestZ80RestartedAgentReportsWhatItWasKilledIn(t *testing.T) {
	t.Parallel()
	g, url := runningGateway(t, "LEASE_TTL=600s")
	token := g.register(url, "pc")
	agent := g.startAgent("pc", url, token, "MOCK_PAGES=1000", "MOCK_PAGE_SECONDS=1")
	id := g.submit(url, h2Payload)
	g.untilStatus(time.Minute, url, id, "started")
	until(g.t, time.Minute, "the job runs", func() bool { return g.job(url, id).Progress != nil })
	agent.kill()
	g.startAgent("pc", url, token)
	// Not when the lease of 600 s is over, but now.
	until(g.t, time.Minute, "the failure is reported", func() bool { return g.job(url, id).RetryCount == 1 })
	if a := g.job(url, id); a.ErrorCode != "WORKER_RESTART" {
		t.Errorf("job %+v, want error code WORKER_RESTART", a)
	}
}

func TestZ81StoppedAgentHandsItsJobBackUncounted(t *testing.T) {
	t.Parallel()
	for _, signals := range []int{1, 2} {
		t.Run(fmt.Sprint(signals, " signals"), func(t *testing.T) {
			g, url := runningGateway(t, "LEASE_TTL=600s")
			drain := "DRAIN_TIMEOUT=1s"
			if signals == 2 {
				drain = "DRAIN_TIMEOUT=600s"
			}
			agent := g.startAgent("pc", url, g.register(url, "pc"), "MOCK_PAGES=1000", "MOCK_PAGE_SECONDS=1", drain)
			id := g.submit(url, h2Payload)
			until(g.t, time.Minute, "the job runs", func() bool { return g.job(url, id).Progress != nil })
			if signals == 2 {
				if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				until(g.t, time.Minute, "the agent has received the first signal", func() bool {
					return strings.Contains(agent.log.String(), "another signal hands them back at once")
				})
				<-time.After(time.Second)
				if s := g.job(url, id).Status; s != "started" {
					t.Fatalf("after the first signal the job is %s, want it to go on", s)
				}
			}
			if code, took := agent.terminate(); code != 0 || took > 30*time.Second { // the job takes 1000 s, the other drain 600 s
				t.Errorf("agent ended with %d after %s", code, took)
			}
			if a := g.job(url, id); a.Status != "queued" || a.RetryCount != 0 {
				t.Errorf("job %+v, want it queued and not counted", a)
			}
			if at := g.rdb.LIndex(t.Context(), "zpe:queue", -1).Val(); at != id {
				t.Errorf("the next job is %q, want the one handed back", at)
			}
		})
	}
}

func TestZ38RevokedWorkerStopsAndItsJobGoesOn(t *testing.T) {
	t.Parallel()
	g, url := runningGateway(t, "LEASE_TTL=60s")
	agent := g.startAgent("stolen", url, g.register(url, "stolen"), "MOCK_PAGES=1000", "MOCK_PAGE_SECONDS=1", "START_TIMEOUT=1s")
	id := g.submit(url, h2Payload)
	g.untilStatus(time.Minute, url, id, "started")
	worker := g.job(url, id).WorkerID
	var revoked wire.RevokeResponse
	g.call(http.MethodDelete, url+"/calc/zpe/compute/servers/"+worker, testAdmin, nil, &revoked)
	if revoked.RevokedCount != 1 {
		t.Errorf("%d tokens were revoked, want 1", revoked.RevokedCount)
	}
	until(g.t, time.Minute, "the job is taken back", func() bool { return g.job(url, id).Status == "queued" })
	if code := agent.exitCode(time.Minute); code != 2 {
		t.Errorf("the revoked agent ended with %d, want 2", code)
	}
}

func TestZ70ReaperNeedsNoWorker(t *testing.T) {
	t.Parallel()
	g, url := runningGateway(t, "LEASE_TTL=2s")
	agent := g.startAgent("pc", url, g.register(url, "pc"), "MOCK_PAGES=1000", "MOCK_PAGE_SECONDS=1")
	id := g.submit(url, h2Payload)
	g.untilStatus(time.Minute, url, id, "started")
	agent.kill()
	until(g.t, time.Minute, "the job waits to be run again", func() bool {
		a := g.job(url, id)
		return a.Status == "queued" && a.RetryCount == 1
	})
	if n := g.rdb.ZCard(t.Context(), "zpe:delay").Val(); n != 1 {
		t.Errorf("%d jobs are delayed, want 1", n)
	}
}

// TestZ19NoSecretIsLeftAnywhere looks for the tokens of a whole run where they
// must not be: in Redis, in logs, in metrics, and in what other users of the
// machine can see of the processes.
func TestZ19NoSecretIsLeftAnywhere(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr, metrics := freeAddr(t), freeAddr(t)
	url := "http://" + addr
	gw := g.startProcess(g.environment(g.atRedis("LOG_LEVEL=DEBUG")...),
		"gateway", "--addr", addr, "--metrics-addr", metrics, "--admin-token-file", filepath.Join(g.dir, "admin.token"))
	g.untilReadyz(addr, http.StatusOK)
	file := g.register(url, "pc")
	token := loadToken(t, file)
	enroll := g.tokenOf(filepath.Join(g.dir, "pc.enroll"))
	agent := g.startAgent("pc", url, file, "LOG_LEVEL=DEBUG", "MOCK_PAGES=1")
	id := g.submit(url, h2Payload)
	g.untilStatus(time.Minute, url, id, "finished")
	for _, bad := range []string{"wrong", token.Token + "x"} {
		if r, err := g.request(http.MethodPost, url+wire.PathLease, bad, "{}"); err != nil || r.status != http.StatusUnauthorized {
			t.Errorf("a wrong token: %d %v", r.status, err)
		}
	}
	page, err := g.request(http.MethodGet, "http://"+metrics+"/metrics", "", nil)
	if err != nil || page.status != http.StatusOK {
		t.Fatalf("metrics: %d %v", page.status, err)
	}
	places := map[string]string{"gateway's log": gw.log.String(), "agent's log": agent.log.String(), "metrics": string(page.body), "Redis": g.dump()}
	for _, pid := range []int{gw.Process.Pid, agent.Process.Pid} {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		places[fmt.Sprint("command line of ", pid)] = string(line)
	}
	for where, text := range places {
		for what, secret := range map[string]string{"worker token": token.Token, "enroll token": enroll, "admin token": testAdmin} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s is in the %s", what, where)
			}
		}
	}
	// The agent knows nothing of Redis.
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", agent.Process.Pid))
	if err != nil || strings.Contains(strings.ToLower(string(environment)), "redis") {
		t.Errorf("the agent's environment: %q %v", environment, err)
	}
	if strings.Contains(agent.log.String(), fmt.Sprint(g.redis.Port)) {
		t.Errorf("the agent's log names Redis:\n%s", agent.log)
	}
}

// dump returns all keys and values.
func (g *testGateway) dump() string {
	g.t.Helper()
	var b strings.Builder
	for _, key := range g.rdb.Keys(g.t.Context(), "*").Val() {
		b.WriteString(key + "\n")
		switch g.rdb.Type(g.t.Context(), key).Val() {
		case "string":
			b.WriteString(g.rdb.Get(g.t.Context(), key).Val())
		case "hash":
			fmt.Fprint(&b, g.rdb.HGetAll(g.t.Context(), key).Val())
		case "list":
			fmt.Fprint(&b, g.rdb.LRange(g.t.Context(), key, 0, -1).Val())
		case "set":
			fmt.Fprint(&b, g.rdb.SMembers(g.t.Context(), key).Val())
		case "zset":
			fmt.Fprint(&b, g.rdb.ZRangeWithScores(g.t.Context(), key, 0, -1).Val())
		}
	}
	return b.String()
}

// TestZ76BoardShowsWhatThereIs holds the Grafana board against the metrics of a
// gateway that has had something to do.
func TestZ76BoardShowsWhatThereIs(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr, metrics := freeAddr(t), freeAddr(t)
	url := "http://" + addr
	g.startProcess(g.environment(g.atRedis("REAP_INTERVAL=1s")...),
		"gateway", "--addr", addr, "--metrics-addr", metrics, "--admin-token-file", filepath.Join(g.dir, "admin.token"))
	g.untilReadyz(addr, http.StatusOK)
	token := g.tokenOf(g.enrolled("by-hand"))
	for _, end := range []string{"/failed", ""} { // a failure, and a lease that runs out
		id := g.submit(url, h2Payload)
		var lease wire.LeaseResponse
		g.call(http.MethodPost, url+wire.PathLease, token, `{"features":["renew"]}`, &lease)
		if end == "" {
			g.endLease(id)
		} else {
			g.call(http.MethodPost, url+"/calc/zpe/compute/jobs/"+id+end, token, map[string]any{"lease_id": lease.LeaseID, "error_code": "X", "error_message": "y"}, nil)
		}
	}
	if r, err := g.request(http.MethodPost, url+wire.PathLease, "wrong", "{}"); err != nil || r.status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d %v", r.status, err)
	}
	var page string
	until(g.t, time.Minute, "a lease has expired", func() bool {
		r, err := g.request(http.MethodGet, "http://"+metrics+"/metrics", "", nil)
		page = string(r.body)
		return err == nil && strings.Contains(page, "batchfleet_gateway_lease_expiries_total{")
	})
	boardShows(t, "gateway", 15, page)
	for _, label := range []string{"worker=", "worker_id=", "job=", "job_id=", "token="} {
		if strings.Contains(page, label) {
			t.Errorf("the metrics have a label %s", label)
		}
	}
}
