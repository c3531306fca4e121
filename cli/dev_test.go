package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// devFleet is a running `batchfleet dev` and what it has said.
type devFleet struct {
	t       *testing.T
	process *process
	dir     string
	env     []string // for other commands to find it
	api     string   // address of the Job API
}

func startDev(t *testing.T, env ...string) *devFleet {
	t.Helper()
	env = append([]string{"PATH=" + os.Getenv("PATH"), "HTTP_ADDR=127.0.0.1:0"}, env...)
	p := launch(t, batchfleet(t, env, "dev", "--addr", "127.0.0.1:0", "--redis-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"))
	d := &devFleet{t: t, process: p, dir: p.Dir}
	p.untilLogged("/api/v1/fleet/jobs\n")
	line := regexp.MustCompile(`(?m)^  export (.*)$`).FindStringSubmatch(p.log.String())[1]
	d.env = append([]string{"PATH=" + os.Getenv("PATH")}, strings.Fields(line)...)
	d.api = regexp.MustCompile(`curl (http://\S+)/api/v1/fleet/jobs`).FindStringSubmatch(p.log.String())[1]
	d.env = append(d.env, "JOB_API="+d.api)
	return d
}

// run runs a command against the fleet and returns its output and exit code.
func (d *devFleet) run(args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	return output(d.t, batchfleet(d.t, d.env, args...))
}

// want runs a command and compares its exit code and output.
func (d *devFleet) want(code int, pattern string, args ...string) string {
	d.t.Helper()
	got, out, errOut := d.run(args...)
	if got != code || !regexp.MustCompile(pattern).MatchString(out+errOut) {
		d.t.Fatalf("batchfleet %s: exit code %d, want %d and %s\n%s%s", strings.Join(args, " "), got, code, pattern, out, errOut)
	}
	return out
}

func TestDevHasConnectionsForAllWhoMayFollowJobs(t *testing.T) {
	t.Parallel()
	besideConnections(t, strings.TrimPrefix(startDev(t).api, "http://"), 5000)
}

func TestF62DevStaysUpAndItsLinesWork(t *testing.T) {
	t.Parallel()
	d := startDev(t, "MOCK_PAGE_SECONDS=0.2")
	for _, tool := range []string{"curl", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil && os.Getenv("CI") == "" {
			t.Skipf("%s is not installed (Debian: apt-get install redis-tools curl)", tool)
		}
	}
	var get string
	for line := range strings.Lines(d.process.log.String()) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "curl "):
			out, err := exec.CommandContext(t.Context(), "bash", "-c", line).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "messageIds") && !strings.Contains(string(out), `{"items":[`) {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
		case strings.HasPrefix(line, "redis-cli "):
			get = line
		}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", get).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", get, err, out)
		}
		if strings.Contains(string(out), `"status":"completed","progress":100,"message":"Processing completed!"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s says %s", get, out)
		}
		<-time.After(50 * time.Millisecond)
	}
	if code, _ := d.process.terminate(); code != 0 {
		t.Errorf("dev ended with code %d after SIGTERM, want 0\n%s", code, d.process.log)
	}
}

func TestF63CommandsAgainstAFleet(t *testing.T) {
	t.Parallel()
	d := startDev(t, "MOCK_PAGE_SECONDS=30")
	fixture, err := filepath.Abs("../pdf/testdata/groff.pdf")
	if err != nil {
		t.Fatal(err)
	}
	// submit and wait
	d.want(0, `(?s)groff\.pdf +succeeded +2 .*\nresult: \S+/results/[0-9A-Z]{26}/result.json\n`, "submit", "--wait", fixture)
	id := strings.TrimSpace(d.want(0, `^[0-9A-Z]{26}\n$`, "submit", fixture))
	d.want(0, `succeeded 3/3`, "watch", id)
	d.want(0, `(?s)kind +pdf\nstate +succeeded.*attempt +1`, "status", id)
	var row struct {
		ID     string                  `json:"jobId"`
		Result struct{ Object string } `json:"result"`
	}
	if err := json.Unmarshal([]byte(d.want(0, ``, "get", "--json", id)), &row); err != nil || row.ID != id {
		t.Errorf("get --json: %+v, %v", row, err)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "dev_storage", row.Result.Object)); err != nil {
		t.Errorf("the result is not where the status says: %v", err)
	}
	d.want(0, `attempt 1 started by .*\n(.*\n)*.*attempt 1 completed\n`, "logs", id)
	d.want(0, id, "list", "--limit", "5")
	d.want(1, "ended already: succeeded", "cancel", id)
	// cancel a running job, and see it end
	slow := strings.TrimSpace(d.want(0, `.`, "submit", "--kind", "mock", fixture))
	d.want(0, "canceled|asked to stop", "cancel", slow)
	d.want(1, "canceled", "watch", slow)
	d.want(0, "canceled", "logs", "--follow", slow)
	// what is not there
	d.want(1, "no such job.*`batchfleet list`", "get", "nobody")
	d.want(1, "cancel job nobody: no such job", "cancel", "nobody")
	// a failing document
	bad := filepath.Join(t.TempDir(), "bad name ü.pdf")
	if err := os.WriteFile(bad, []byte("no PDF"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(1, `(?s)failed .*\nbad name ü.pdf: input is not a PDF\n`, "submit", "--wait", bad)
	d.want(0, "(?s)ok    redis.*ok    storage.*ok    pub/sub.*ok    pub/sub.*ok    pdf", "doctor")
	// a service that is away has an exit code of its own
	d.env = append(d.env, "REDIS_PORT=1")
	d.want(3, "connection refused", "list")
}
