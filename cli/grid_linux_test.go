package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
)

// testGrid is the directory of a grid: of the programs that its workers run, and of what its processes keep.
type testGrid struct {
	t   *testing.T
	dir string
	env []string // of workers and clients
}

// newTestGrid returns a grid with the program calcA.
func newTestGrid(t *testing.T) *testGrid {
	t.Helper()
	testrun.Once(t, kills)
	g := &testGrid{t: t, dir: t.TempDir()}
	if err := os.MkdirAll(g.path("exe"), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := calcA()
	if err == nil {
		err = os.WriteFile(g.path("exe", "calcA.exe"), text, 0o700) //nolint:gosec // a program
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// calcA returns the program, which is built once.
var calcA = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "calcA-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "calcA.exe")
	build := exec.Command("go", "build", "-o", file, "../examples/grid/calcA")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build calcA: %w\n%s", err, out)
	}
	return os.ReadFile(file)
})

func (g *testGrid) path(parts ...string) string {
	return filepath.Join(append([]string{g.dir}, parts...)...)
}

// script makes a program of a shell script.
func (g *testGrid) script(exec, text string) {
	g.t.Helper()
	if err := os.WriteFile(g.path("exe", exec+".exe"), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // a program
		g.t.Fatal(err)
	}
}

func (g *testGrid) command(args ...string) *exec.Cmd {
	g.t.Helper()
	cmd := batchfleet(g.t, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir}, g.env...), append([]string{"grid"}, args...)...)
	cmd.Dir = g.dir
	return cmd
}

// run runs a command to its end, and checks its exit code and what it says.
func (g *testGrid) run(wantCode int, want string, args ...string) (stdout string) {
	g.t.Helper()
	code, out, errs := output(g.t, g.command(args...))
	if ok, err := regexp.MatchString("(?s)"+want, out+errs); err != nil || !ok || code != wantCode {
		g.t.Errorf("grid %q: exit code %d, want %d and %s (%v)\n%s%s", args, code, wantCode, want, err, out, errs)
	}
	return out
}

// gridLeader is a leader in a process of its own.
type gridLeader struct {
	*process
	g                     *testGrid
	addr, host, port, url string
}

var (
	leaderListens = regexp.MustCompile(`leader listens on (\S+)`)
	leaderWeb     = regexp.MustCompile(`its Job API is at (\S+),`)
)

func (g *testGrid) leader(port string, flags ...string) *gridLeader {
	g.t.Helper()
	l := &gridLeader{g: g, process: launch(g.t, g.command(append([]string{"leader", port, "--http", "127.0.0.1:0"}, flags...)...))}
	l.untilLogged("its Job API is at http")
	l.addr = leaderListens.FindStringSubmatch(l.log.String())[1]
	l.url = leaderWeb.FindStringSubmatch(l.log.String())[1]
	var err error
	if l.host, l.port, err = net.SplitHostPort(l.addr); err != nil {
		g.t.Fatal(err)
	}
	return l
}

// worker starts one, with the arguments and flags given, and waits until it is connected.
func (g *testGrid) worker(args ...string) *process {
	g.t.Helper()
	p := launch(g.t, g.command(append([]string{"worker", "--exe-dir", g.path("exe"), "--jobs-dir", g.path("jobs"), "--cache-dir", g.path("cache")}, args...)...))
	p.untilLogged(`"connected to leader"`)
	return p
}

// stop ends a process as a service manager does.
func (p *process) stop() {
	p.t.Helper()
	if code, _ := p.terminate(); code != 0 {
		p.t.Errorf("%v: exit code %d after SIGTERM:\n%s", p.Args[1:], code, p.log)
	}
}

// about runs a command about the jobs of a leader.
func (l *gridLeader) about(wantCode int, want string, args ...string) string {
	l.g.t.Helper()
	return l.g.run(wantCode, want, append(args, "--api", l.url)...)
}

// submit submits a job and returns its id.
func (l *gridLeader) submit(args ...string) string {
	l.g.t.Helper()
	return strings.TrimSpace(l.g.run(0, "^[0-9a-f-]{36}\n", append([]string{"submit", "--leader", l.addr, "--client", "clientA"}, args...)...))
}

// untilState waits until a job is in a state.
func (l *gridLeader) untilState(id, want string) {
	l.g.t.Helper()
	var job jobapi.Job
	until(l.g.t, time.Minute, "job "+id+" is "+want, func() bool {
		_, out, _ := output(l.g.t, l.g.command("show", "--json", "--api", l.url, id))
		return json.Unmarshal([]byte(out), &job) == nil && job.Status.String() == want
	})
}

func (g *testGrid) get(url string) (status int, text string) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	resp, err := relayClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
