package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestG69DirectoryOfResultsIsCheckedBeforeTheJobRuns(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("leave", `echo "$1" >left.txt; echo "$1" >>"`+g.path("ran")+`"`)
	l := g.leader("0")
	g.worker(l.host, l.port)
	submit := func(code int, want string, args ...string) {
		t.Helper()
		g.run(code, want, append([]string{"submit", "--leader", l.addr, "--client", "clientA", "--wait", "-o", "out"}, args...)...)
	}
	submit(0, "", "--array", "8-11", "leave", "{i}")
	for _, index := range []string{"8", "9", "10", "11"} {
		if text, err := os.ReadFile(g.path("out", index, "left.txt")); err != nil || string(text) != index+"\n" {
			t.Errorf("the job of index %s has left %q, %v", index, text, err)
		}
	}
	submit(0, "", "--array", "12", "leave", "{i}")
	submit(2, "-o: there is something in out: give a directory that is empty, or that does not exist", "leave", "once")
	submit(2, "-o: out/12 is there already: give a directory without it", "--array", "12-13", "leave", "again")
	if err := os.WriteFile(g.path("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	submit(2, "-o: .*file: not a directory", "-o", "file", "leave", "once")
	if text, err := os.ReadFile(g.path("ran")); err != nil || len(text) != len("8\n9\n10\n11\n12\n") {
		t.Errorf("the jobs that have run are %q, %v", text, err)
	}
}

func TestG69WaitSaysWhyJobIsQueued(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	empty, l := g.leader("0"), g.leader("0")
	g.worker(l.host, l.port)
	const none = "; EXEC is the name without .exe: calcA\n"
	for _, tt := range []struct {
		leader *gridLeader
		want   string
		args   []string
	}{
		{l, " waits: no worker takes job.assign.calcA.exe: the connected workers take job.assign.*" + none, []string{"calcA.exe"}},
		{l, " waits: no worker takes job.assign.calcA.exe: the connected workers take job.assign.*" + none, []string{"--array", "0-3", "calcA.exe"}},
		{empty, " waits: no worker takes job.assign.calcA: no worker is connected\n", []string{"calcA"}},
	} {
		p := launch(t, g.command(append([]string{"submit", "--wait", "--leader", tt.leader.addr, "--client", "clientA"}, tt.args...)...))
		defer func() {
			p.untilLogged(tt.want)
			p.terminate()
			if n := strings.Count(p.log.String(), " waits: "); n != 1 {
				t.Errorf("that it waits is said %d times\n%s", n, p.log)
			}
		}()
	}
}

func TestG69HintsNameCommandsOfTheGrid(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("hold", `echo held; while [ ! -e "`+g.path("go")+`" ]; do sleep 0.05; done; echo left >left.txt`)
	l := g.leader("0")
	g.worker(l.host, l.port)
	id := l.submit("hold")
	l.untilState(id, "running")
	p := launch(t, g.command("logs", "-f", id, "--api", l.url))
	p.untilLogged("held")
	if code, _ := p.terminate(); code != 130 || !strings.Contains(p.log.String(), "`batchfleet grid show "+id+" --api "+l.url+"` shows it, `batchfleet grid cancel "+id+" --api "+l.url+"` stops it") {
		t.Errorf("grid logs -f, interrupted, ends with exit code %d\n%s", code, p.log)
	}
	l.submit("hold")
	l.about(0, "more: batchfleet grid list --api "+l.url+" --limit 1 --cursor ", "list", "--limit", "1")
	l.about(1, "; `batchfleet grid list --api "+l.url+"` shows what there is", "show", "35918bc9-196d-40ea-9779-889d79b753f0")
	g.write("go", "")
	l.untilState(id, "succeeded")
	l.about(0, "files +batchfleet grid result -o "+id+" "+id+" --api ", "show", id)
}

func TestG69HintsLeaveOutTheUsualServer(t *testing.T) {
	t.Parallel()
	var c *connection
	ofGrid(func(made *connection) *cobra.Command { c = made; return getCommand(c) }, "show JOB…", "", "")
	if got := c.given(); got != "" {
		t.Errorf("without flags the hints have%s", got)
	}
	if c.api = "http://127.0.0.1:1"; c.given() != " --api http://127.0.0.1:1" {
		t.Errorf("with --api the hints have%s", c.given())
	}
}

func TestG69ResultFetchesWhatFailedJobHasLeft(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("leave", `echo why >left.txt; exit "$1"`)
	l := g.leader("0")
	g.worker(l.host, l.port)
	for _, tt := range []struct{ code, state string }{{"0", "succeeded"}, {"1", "failed"}} {
		id := l.submit("leave", tt.code)
		l.untilState(id, tt.state)
		l.about(2, "what the program of job "+id+" has left is archive.zip: give -o DIR", "result", id)
		l.about(0, "archive.zip", "result", "--list", id)
		l.about(0, "^"+tt.state+"/archive.zip\n$", "result", "-o", tt.state, id)
	}
	const taken = "35918bc9-196d-40ea-9779-889d79b753f0"
	g.run(1, "exit status 1", "submit", "--leader", l.addr, "--client", "clientA", "--id", taken, "--wait", "leave", "1")
	l.about(0, "archive.zip", "result", "-o", "taken", taken)
	dead := l.submit("--retry-on", "exit", "--max-attempts", "1", "leave", "1") // of it the leader keeps the request alone
	l.untilState(dead, "failed")
	l.about(1, "job "+dead+" failed: DEAD_LETTER", "result", "-o", "dead", dead)
	waits := l.submit("calcA.exe.none")
	l.about(1, "has no result: it is queued", "result", waits)
	l.about(0, "canceled", "cancel", waits)
	l.about(1, "canceled", "result", "-o", "canceled", waits)
	nothing := l.submit("none")
	l.untilState(nothing, "failed")
	l.about(1, "job "+nothing+" failed: REJECTED: ", "result", "-o", "failed", nothing)
}
