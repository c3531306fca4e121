package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// gridEnds are ends of the grid around one leader: ours, and those of examples/grid, which know the wire from its
// specification alone. Their programs wait until they may end, and write down each start.
type gridEnds struct {
	t    *testing.T
	dir  string // has exe/, ledger, and the file go once programs may end
	addr string // of the leader
}

// modes are how the Python ends are started: with the original protocol, and with extensions.
var modes = map[string][]string{"original": nil, "extensions": {"--features"}}

// eachMode runs a test with both, and new ends.
func eachMode(t *testing.T, test func(*gridEnds, []string)) {
	t.Helper()
	t.Parallel()
	testrun.Once(t, "other tests look for races in these processes")
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: install python3", err)
		}
		t.Skipf("%v", err)
	}
	for name, flags := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gridEnds{t: t, dir: t.TempDir(), addr: freeAddr(t)}
			g.write("exe/calcA.exe", fmt.Sprintf(`#!/bin/sh
cp input.txt "copy of $1.txt"
printf '%%s|%%s\n' "$1" "$(cat input.txt)" >> '%[1]s/ledger'
until [ -e '%[1]s/go' ] || ! [ -e '%[1]s/ledger' ]; do sleep 0.05; done
cat input.txt
printf 'あ\377' >&2
`, g.dir))
			g.write("exe/fails.exe", "#!/bin/sh\necho half\necho why >&2\nexit 3\n")
			test(g, flags)
		})
	}
}

func (g *gridEnds) write(name, text string) {
	g.t.Helper()
	name = filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
		g.t.Fatal(err)
	}
}

// letGo lets programs end.
func (g *gridEnds) letGo() { g.write("go", "") }

// started returns a line for each start of a program, sorted.
func (g *gridEnds) started() []string {
	text, _ := os.ReadFile(filepath.Join(g.dir, "ledger")) // there is none before the first start
	lines := strings.Split(string(text), "\n")
	lines = lines[:len(lines)-1]
	slices.Sort(lines)
	return lines
}

// python starts an end of examples/grid.
func (g *gridEnds) python(role string, flags []string, args ...string) *process {
	g.t.Helper()
	program, err := filepath.Abs("../examples/grid/grid.py")
	if err != nil {
		g.t.Fatal(err)
	}
	cmd := exec.CommandContext(g.t.Context(), "python3", slices.Concat([]string{program, role}, flags, args)...)
	cmd.Dir, cmd.Env = g.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1"}
	return launch(g.t, cmd)
}

// at returns where the leader is, as arguments.
func (g *gridEnds) at(more ...string) []string {
	host, port, _ := net.SplitHostPort(g.addr)
	return append([]string{host, port}, more...)
}

func (g *gridEnds) pythonLeader(flags []string) *process {
	g.t.Helper()
	p := g.python("leader", flags, g.at()[1])
	p.untilLogged("listening on")
	return p
}

func (g *gridEnds) pythonWorker(flags []string) *process {
	g.t.Helper()
	return g.python("worker", flags, g.at("job.assign.>", "--exe-dir", filepath.Join(g.dir, "exe"), "--jobs-dir", filepath.Join(g.dir, "jobs"))...)
}

// pythonClient submits jobs, with a text in input.txt of each.
func (g *gridEnds) pythonClient(flags []string, jobs int, run ...string) *process {
	g.t.Helper()
	flags = append(slices.Clone(flags), "--jobs", fmt.Sprint(jobs))
	return g.python("client", flags, g.at(append([]string{"clientA", "8"}, run...)...)...)
}

// our starts an end of ours.
func (g *gridEnds) our(args ...string) *process {
	g.t.Helper()
	return launch(g.t, batchfleet(g.t, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir}, append([]string{"grid"}, args...)...))
}

func (g *gridEnds) ourLeader() *process {
	g.t.Helper()
	p := g.our("leader", g.at()[1], "--dir", filepath.Join(g.dir, "leader"), "--http", "")
	p.untilLogged("leader listens on")
	return p
}

func (g *gridEnds) ourWorker() *process {
	g.t.Helper()
	args := []string{"worker"}
	for _, flag := range []string{"exe", "jobs", "cache"} {
		args = append(args, "--"+flag+"-dir", filepath.Join(g.dir, flag))
	}
	return g.our(append(append(args, "--dir", filepath.Join(g.dir, "worker")), g.at("job.assign.>")...)...)
}

func (g *gridEnds) ourClient() *process {
	g.t.Helper()
	return g.our(append([]string{"client"}, g.at("clientA", "8")...)...)
}

// untilStarted waits until that many programs have started.
func (g *gridEnds) untilStarted(n int) {
	g.t.Helper()
	until(g.t, time.Minute, fmt.Sprintf("%d programs have started", n), func() bool { return len(g.started()) >= n })
}

// startedOnce fails the test unless the programs have started once each. With extensions a program is started again
// if its worker does not accept it within a second, as on a machine that stalls.
func (g *gridEnds) startedOnce(flags []string, want ...string) {
	g.t.Helper()
	got := g.started()
	if flags != nil {
		got = slices.Compact(got)
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("programs have started with %q, want %q", got, want)
	}
}

// archiveSize is how large an archive is, which makers of archives decide.
var archiveSize = regexp.MustCompile(`archive=[1-9][0-9]* bytes`)

// tells fails the test unless the client ends with that exit code and has printed those results, without the JobIds, in some order.
func (g *gridEnds) tells(client *process, code int, want ...string) {
	g.t.Helper()
	if got := client.exitCode(2 * time.Minute); got != code {
		g.t.Errorf("the client ends with %d, want %d:\n%s", got, code, client.log)
	}
	var got []string
	for _, match := range regexp.MustCompile(`(?m)^[0-9a-f-]{36} ((?:OK|FAILED) .*)$`).FindAllStringSubmatch(client.log.String(), -1) {
		got = append(got, archiveSize.ReplaceAllString(match[1], "archive"))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		g.t.Errorf("the client has printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestG20PythonClientWithOurLeader(t *testing.T) {
	eachMode(t, func(g *gridEnds, flags []string) {
		g.ourLeader()
		g.ourWorker()
		g.letGo()
		g.tells(g.pythonClient(flags, 3, "calcA", "ü あ"), 0,
			`OK 'job 1\n' .grid/stderr='あ�' copy of ü あ.txt='job 1\n'`,
			`OK 'job 2\n' .grid/stderr='あ�' copy of ü あ.txt='job 2\n'`,
			`OK 'job 3\n' .grid/stderr='あ�' copy of ü あ.txt='job 3\n'`)
		g.startedOnce(flags, "ü あ|job 1", "ü あ|job 2", "ü あ|job 3")
		g.tells(g.pythonClient(flags, 1, "fails"), 1, `FAILED 'half\n'`)
	})
}

func TestG13PythonLeaderWithOurPeers(t *testing.T) {
	eachMode(t, func(g *gridEnds, flags []string) {
		leader := g.pythonLeader(flags)
		worker := g.ourWorker()
		client := g.ourClient()
		g.untilStarted(3)
		leader.kill() // it keeps nothing
		g.pythonLeader(flags)
		g.letGo()
		g.tells(client, 0, demoResults...)
		g.startedOnce(flags, demoStarts...)
		if code, _ := worker.terminate(); code != 0 {
			g.t.Errorf("the worker ends with %d, want 0", code)
		}
	})
}

func TestG14PythonWorkerWithOurLeader(t *testing.T) {
	eachMode(t, func(g *gridEnds, flags []string) {
		g.ourLeader()
		g.pythonWorker(flags)
		g.letGo()
		g.tells(g.ourClient(), 0, demoResults...)
		g.startedOnce(flags, demoStarts...)
		g.tells(g.pythonClient(flags, 1, "fails"), 1, `FAILED 'half\n'`)
		g.tells(g.pythonClient(flags, 1, "absent"), 1, fmt.Sprintf("FAILED 'there is no absent.exe in %s/exe'", g.dir))
	})
}

func TestG43PythonWorkerIsKilled(t *testing.T) {
	eachMode(t, func(g *gridEnds, flags []string) {
		g.ourLeader()
		worker := g.pythonWorker(flags)
		client := g.ourClient()
		g.untilStarted(len(demoStarts))
		worker.kill()
		g.pythonWorker(flags)
		g.untilStarted(2 * len(demoStarts))
		g.letGo()
		g.tells(client, 0, demoResults...)
	})
}

func TestG20PythonPeersReconnectToOurLeader(t *testing.T) {
	eachMode(t, func(g *gridEnds, flags []string) {
		leader := g.ourLeader()
		g.pythonWorker(flags)
		client := g.pythonClient(flags, 6, "calcA", "x")
		g.untilStarted(4) // two more wait
		leader.kill()
		g.ourLeader()
		g.letGo()
		var want, starts []string
		for n := range 6 {
			want = append(want, fmt.Sprintf(`OK 'job %d\n' copy of x.txt='job %[1]d\n'`, n+1))
			starts = append(starts, fmt.Sprintf("x|job %d", n+1))
		}
		g.tells(client, 0, want...)
		g.startedOnce(flags, starts...)
	})
}

// demoStarts and demoResults are of the jobs of `batchfleet grid client`.
var (
	demoStarts  = []string{"1|input of job 1", "2|input of job 2", "3|input of job 3"}
	demoResults = []string{
		`OK stdout="input of job 1\n" stderr="あ�" archive`, `OK stdout="input of job 2\n" stderr="あ�" archive`,
		`OK stdout="input of job 3\n" stderr="あ�" archive`,
	}
)
