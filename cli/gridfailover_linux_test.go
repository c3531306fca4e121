package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// untilWritten waits until a file of programs has so many lines.
func (g *faultGrid) untilWritten(name string, lines int) {
	g.t.Helper()
	until(g.t, 3*time.Minute, fmt.Sprintf("%s has %d lines", name, lines), func() bool { return len(g.written(name)) >= lines })
}

// waits is a script that notes that it runs, in starts, waits until there is a file go, and notes its end, in ends.
const waits = `echo $$ >>"$DIR/starts"; while [ ! -e "$DIR/go" ]; do sleep 0.05; done; echo result of $1; echo $$ >>"$DIR/ends"`

// A job that ends while its leader is gone is not run again: the worker keeps the result until the leader is back.
func TestG56ResultArrivesAfterLeaderOutage(t *testing.T) {
	t.Parallel()
	endWithoutLeader(t, "leader")
}

// A leader that keeps nothing takes results of jobs that it does not know, and clients submit the others again.
func TestG46LeaderWithoutStateTakesResult(t *testing.T) {
	t.Parallel()
	endWithoutLeader(t, "")
}

func endWithoutLeader(t *testing.T, dir string) {
	t.Helper()
	testrun.Once(t, kills)
	const jobs = 3
	g := newFaultGrid(t)
	g.program("waits", waits)
	addr := freeAddr(t)
	leader := g.leader(addr, dir)
	worker := g.worker("worker", jobs, []string{addr})
	c := g.client(client.Config{Leaders: []string{addr}})
	var all []*client.Job
	for n := range jobs + 1 { // the last one waits for a slot
		all = append(all, c.submit("waits", fmt.Sprint("job", n)))
	}
	g.untilWritten("starts", jobs)
	for _, j := range all {
		<-j.Queued()
	}
	leader.kill()
	g.write("go")
	until(t, time.Minute, "the worker has the results", func() bool { return strings.Count(worker.log.String(), "job succeeded") == jobs })
	g.leader(addr, dir)
	for n, j := range all {
		if r := c.result(j); r.Status != wire.OK || r.Stdout != fmt.Sprintf("result of job%d\n", n) {
			t.Errorf("job %d: %s %q %q", n, r.Status, r.Stdout, r.Stderr)
		}
	}
	if n := len(g.written("starts")); n != jobs+1 {
		t.Errorf("%d programs ran for %d jobs", n, jobs+1)
	}
}

// waitsHere is waits for the worker alone in whose directory the job runs: for a file go.WORKER. It ends at SIGTERM.
const waitsHere = `trap 'exit 1' TERM; echo $$ >>"$DIR/starts"; here=${PWD%/jobs/*}; while [ ! -e "$DIR/go.${here##*/}" ]; do sleep 0.05; done; echo result of ${here##*/}`

// gone reports whether the process of the nth line of a file has ended.
func (g *faultGrid) gone(name string, n int) bool {
	g.t.Helper()
	command, _ := os.ReadFile(filepath.Join("/proc", g.written(name)[n], "cmdline"))
	return len(command) == 0 // it is not there, or awaits its parent
}

// A client that has lost its leader for longer than the grace gives the job to another one. Its first result counts, and the run of the first
// leader is stopped when that can be reached.
func TestG51JobAtTwoLeadersHasOneResult(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	g := newFaultGrid(t)
	g.program("waits", waitsHere)
	first, second := freeAddr(t), freeAddr(t)
	g.leader(first, "first")
	g.worker("a", 1, []string{first})
	line := newFaultyLine(t, first)
	c := g.client(client.Config{Leaders: []string{line.addr, second}, Grace: time.Second / 4})
	j := c.submit("waits")
	g.untilWritten("starts", 1)
	g.leader(second, "second")
	g.worker("b", 1, []string{second})
	line.setDown(true)
	g.untilWritten("starts", 2)
	g.write("go.b")
	if r := c.result(j); r.Status != wire.OK || r.Stdout != "result of b\n" {
		t.Errorf("the result is %s %q %q", r.Status, r.Stdout, r.Stderr)
	}
	if g.gone("starts", 0) {
		t.Error("the run of the first leader has ended, and that could not be told")
	}
	line.setDown(false)
	until(t, 3*time.Minute, "the run of the first leader is stopped", func() bool { return g.gone("starts", 0) })
}

// A worker that serves both leaders runs it once.
func TestG51JobAtTwoLeadersOfOneWorkerRunsOnce(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	g := newFaultGrid(t)
	g.program("waits", waitsHere)
	first, second := freeAddr(t), freeAddr(t)
	g.leader(first, "first")
	worker := g.worker("both", 2, []string{first, second})
	line := newFaultyLine(t, first)
	c := g.client(client.Config{Leaders: []string{line.addr, second}, Grace: time.Second / 4})
	j := c.submit("waits")
	g.untilWritten("starts", 1)
	g.leader(second, "second")
	line.setDown(true)
	worker.untilLogged("job is in hand already")
	line.setDown(false)
	g.write("go.both")
	if r := c.result(j); r.Status != wire.OK || r.Stdout != "result of both\n" {
		t.Errorf("the result is %s %q %q", r.Status, r.Stdout, r.Stderr)
	}
	if n := len(g.written("starts")); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// A worker whose machine stands still is lost: after 30 s, or 1 s if it has not yet said that the job has come. The job runs elsewhere, and its
// first run is stopped when the machine goes on.
func TestG52JobSentToFrozenWorkerRunsElsewhere(t *testing.T) {
	t.Parallel()
	freezeAfter(t, 0)
}

func TestG52JobOfWorkerThatFreezesRunsElsewhere(t *testing.T) {
	t.Parallel()
	freezeAfter(t, 2*time.Second)
}

func freezeAfter(t *testing.T, d time.Duration) {
	t.Helper()
	testrun.Once(t, kills)
	g := newFaultGrid(t)
	g.program("waits", waitsHere)
	addr := freeAddr(t)
	g.leader(addr, "leader")
	frozen := g.worker("frozen", 1, []string{addr})
	c := g.client(client.Config{Leaders: []string{addr}})
	j := c.submit("waits")
	g.untilWritten("starts", 1)
	g.worker("other", 1, []string{addr})
	<-time.After(d)
	if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, 2*time.Minute, "the job runs elsewhere", func() bool { return len(g.written("starts")) == 2 })
	if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, 3*time.Minute, "its first run is stopped", func() bool { return g.gone("starts", 0) })
	g.write("go.frozen")
	g.write("go.other")
	if r := c.result(j); r.Status != wire.OK || r.Stdout != "result of other\n" {
		t.Errorf("the result is %s %q %q", r.Status, r.Stdout, r.Stderr)
	}
	if r := c.result(c.submit("waits")); r.Status != wire.OK {
		t.Errorf("then a job ends with %s %q", r.Status, r.Stderr)
	}
}
