package cli

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

// enrollFile has the gateway at url give out an enroll token.
func (g *testGateway) enrollFile(url, label string) string {
	g.t.Helper()
	var enroll wire.EnrollResponse
	g.call(http.MethodPost, url+wire.PathEnrollTokens, testAdmin, map[string]any{"label": label}, &enroll)
	return g.write(label+".enroll", enroll.Token)
}

func loadToken(t *testing.T, file string) gateway.Token {
	t.Helper()
	token, err := gateway.LoadToken(file)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestZ36RegisterRenewsTheTokenThatIsThere(t *testing.T) {
	t.Parallel()
	g, url := runningGateway(t)
	file := filepath.Join(g.dir, "my worker's.token")
	ca := g.write("ca.pem", "")
	register := func(wantCode int, want string, args ...string) (stdout string) {
		t.Helper()
		code, stdout, stderr := g.runCommand([]string{"WORKER_TOKEN_FILE=" + file}, append([]string{"worker", "register", "--gateway", url}, args...)...)
		if code != wantCode || !strings.Contains(stdout+stderr, want) || strings.Contains(stderr, "doctor") {
			t.Errorf("register %q: exit code %d, want %d and %q\n%s%s", args, code, wantCode, want, stdout, stderr)
		}
		return stdout
	}

	// Without a token an enroll token is needed, and the file is that of the variable.
	register(2, "--enroll-token-file must be set: there is no token to renew in "+file)
	register(2, "--ca-file: read CA file: ", "--ca-file", ca, "--enroll-token-file", g.enrollFile(url, "a"))
	stdout := register(0, "registered as w-", "--enroll-token-file", g.enrollFile(url, "b"))
	first := loadToken(t, file)
	if strings.Contains(stdout, "("+first.WorkerID+")") {
		t.Errorf("the id comes twice: %s", stdout)
	}

	// The line that starts the worker is one that a shell can run.
	_, line, _ := strings.Cut(stdout, "start it with: ")
	sh := exec.CommandContext(t.Context(), "sh", "-c", strings.TrimSuffix(line, "\n")+" --help")
	sh.Env = []string{asBatchfleet + "=1", "PATH=" + os.Getenv("PATH")}
	if out, err := sh.CombinedOutput(); err != nil || !strings.Contains(string(out), "Settings of a gateway's worker") {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	if !strings.Contains(line, "SOURCE="+url+" WORKER_TOKEN_FILE='") {
		t.Errorf("start it with %s", line)
	}

	// With a good token the worker stays who it is, and an enroll token stays good.
	register(0, "renewed the token of "+first.WorkerID+", which stays who it is")
	second := loadToken(t, file)
	enroll := g.enrollFile(url, "c")
	register(0, "the enroll token was not needed", "--enroll-token-file", enroll, "--name", "lab")
	third := loadToken(t, file)
	if second.WorkerID != first.WorkerID || third.WorkerID != first.WorkerID || second.Token == first.Token || third.Token == second.Token || third.Name != "lab" {
		t.Errorf("renewed %+v to %+v to %+v", first, second, third)
	}
	register(0, "registered as w-", "--enroll-token-file", enroll, "--force")
	if forced := loadToken(t, file); forced.WorkerID == first.WorkerID {
		t.Error("--force has kept the worker's id")
	}

	register(2, "--enroll-token-file must be set with --force: a new worker needs an enroll token", "--force")

	// A token that the gateway does not take is replaced if it can be.
	worker := loadToken(t, file).WorkerID
	g.call(http.MethodDelete, url+"/calc/zpe/compute/servers/"+worker, testAdmin, nil, nil)
	register(2, "is not good any more: ask for an enroll token")
	register(2, "INVALID_ENROLL_TOKEN: The enroll token is unknown, used up or expired; each is good for one worker, once", "--enroll-token-file", enroll)
	register(0, "a new worker because the gateway does not take the token that was in the file (TOKEN_REVOKED)", "--enroll-token-file", g.enrollFile(url, "d"))
	if fresh := loadToken(t, file); fresh.WorkerID == worker {
		t.Error("a revoked worker has its id back")
	}

	// What is another's is left alone.
	other := gateway.Token{Gateway: "https://other.example", Token: "zpw_token-of-the-other", WorkerID: "w-other"}
	if err := gateway.SaveToken(file, other); err != nil {
		t.Fatal(err)
	}
	register(2, "is for https://other.example, not for "+url, "--enroll-token-file", g.enrollFile(url, "e"))
	if got := loadToken(t, file); got != other {
		t.Errorf("the token of another gateway became %+v", got)
	}
	if err := os.WriteFile(file, []byte("Dear diary,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	register(2, "--force puts another in its place", "--enroll-token-file", g.enrollFile(url, "f"))
	register(0, "registered as lab (w-", "--enroll-token-file", g.enrollFile(url, "g"), "--force", "--name", "lab")
	if entries, err := filepath.Glob(filepath.Join(g.dir, "batchfleet-check-*")); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %q %v", entries, err)
	}
}

func TestWorkerSendsItsTokenToItsGatewayOnly(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	file := filepath.Join(g.dir, "worker.token")
	if err := gateway.SaveToken(file, gateway.Token{Gateway: "https://other.example", Token: "zpw_token-of-the-other"}); err != nil {
		t.Fatal(err)
	}
	env := []string{"SOURCE=http://127.0.0.1:1", "WORKER_TOKEN_FILE=" + file, "PROCESSOR=mock", "AGENT_DIR=" + filepath.Join(g.dir, "agent")}
	want := fmt.Sprintf("SOURCE is http://127.0.0.1:1, but the token in %s is for https://other.example; register with http://127.0.0.1:1, or correct SOURCE", file)
	if code, _, stderr := g.runCommand(env, "worker"); code != 2 || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d: %s\nwant %s", code, stderr, want)
	}
	if code, _, stderr := g.runCommand(append(env, "GATEWAY_CA_FILE=nope", "SOURCE=https://other.example"), "worker"); code != 2 || !strings.Contains(stderr, "GATEWAY_CA_FILE: read CA file: open nope") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestRefusedWorkerSaysWhatToDo(t *testing.T) {
	t.Parallel()
	g, url := runningGateway(t)
	file := g.register(url, "pc")
	g.call(http.MethodDelete, url+"/calc/zpe/compute/servers/"+loadToken(t, file).WorkerID, testAdmin, nil, nil)
	agent := g.startAgent("pc", url, file, "START_TIMEOUT=1s")
	agent.exitCode(30 * time.Second)
	for _, want := range []string{
		"the token is in " + file + ": register again with an enroll token of the gateway's operator, then restart this worker",
		`"level":"WARN","msg":"PROCESSOR is mock: this worker takes real jobs`,
		"`batchfleet doctor` looks for what is wrong",
	} {
		if !strings.Contains(agent.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, agent.log)
		}
	}
}
