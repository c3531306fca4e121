package cli

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestG69WrongLeaderIsNamedWithTheCause(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	const nowhere = "127.0.0.1:1" // of no server, and not given to others
	for _, args := range [][]string{{"--wait", "calcA"}, {"calcA"}} {
		args = append([]string{"submit", "--leader", nowhere, "--client", "clientA", "--queue-timeout", "1s"}, args...)
		g.run(3, "no leader answers within 1s: leader "+nowhere+": connect: .*connection refused", args...)
	}
}

func TestG70SubmitSendsFilesThatFitIntoNoFrame(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("size", `wc -c <large`)
	g.write("large", strings.Repeat("x", 9_000_000))
	l := g.leader("0")
	g.worker(l.host, l.port)
	g.run(0, "^9000000\n$", "submit", "--leader", l.addr, "--client", "clientA", "--file", "large", "--wait", "size")
}

func TestG49InterruptedWaitSaysHowToFindJobs(t *testing.T) {
	t.Parallel()
	g := newTestGrid(t)
	g.script("hold", `echo >"`+g.path("began")+`$1"; while [ ! -e "`+g.path("go")+`" ]; do sleep 0.05; done; echo done`)
	g.write("jobs.jsonl", strings.Repeat("{\"ExecName\":\"hold\",\"Args\":[\"1\"]}\n", 2))
	g.write("tied.jsonl", "{\"ExecName\":\"hold\",\"Args\":[\"2\"],\"OnDisconnect\":\"cancel\"}\n")
	l := g.leader("0")
	g.worker(l.host, l.port)
	const id = "35918bc9-196d-40ea-9779-889d79b753f0"
	take := "`batchfleet grid results --client clientA --leader " + l.addr + "` takes its result; URL is the Job API of the leader, its --http"
	for i, tt := range []struct {
		want string
		args []string
	}{
		{"interrupted; the job goes on if a leader has queued it: `batchfleet grid show " + id + " --api URL` shows it, `batchfleet grid cancel " + id + " --api URL` stops it, " + take, []string{"--id", id, "hold", "0"}},
		{"interrupted; the jobs that a leader has queued go on: `batchfleet grid list --api URL` shows them, `batchfleet grid cancel JOB… --api URL` stops them, ", []string{"--from", "jobs.jsonl"}},
		{"batchfleet: interrupted\n", []string{"--from", "tied.jsonl"}},
	} {
		p := launch(t, g.command(append([]string{"submit", "--wait", "--leader", l.addr, "--client", "clientA"}, tt.args...)...))
		until(t, time.Minute, "it runs", func() bool {
			_, err := os.Stat(g.path("began") + strconv.Itoa(i))
			return err == nil
		})
		if code, _ := p.terminate(); code != 130 || !strings.Contains(p.log.String(), tt.want) {
			t.Errorf("grid submit %v, interrupted, ends with exit code %d, want 130 and %s\n%s", tt.args, code, tt.want, p.log)
		}
	}
	g.write("go", "")
	l.untilState(id, "succeeded")
	g.run(0, id+" OK\n", "results", "--client", "clientA", "--leader", l.addr)
}
