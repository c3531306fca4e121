package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// leavesMuch is a program that cannot be stopped, with a grandchild in a session of its own. It notes earlier ones that still live, and what they
// have left in its directory, in dirty.
const leavesMuch = `export DIR
trap "" TERM
for pid in $(cat "$DIR/pids"); do grep -q . /proc/$pid/cmdline && echo process >>"$DIR/dirty"; done
[ -e mine ] && echo file >>"$DIR/dirty"
touch mine
setsid sh -c 'trap "" TERM; echo $$ >>"$DIR/pids"; while :; do sleep 0.05; done' &
echo $$ >>"$DIR/pids"
while [ ! -e "$DIR/go" ]; do sleep 0.05; done`

// A killed worker leaves nothing that the next attempt could meet.
func TestG43JobOfKilledWorkerRunsInCleanDirectory(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	g := newFaultGrid(t)
	g.program("much", leavesMuch)
	g.write("pids")
	addr := freeAddr(t)
	g.leader(addr, "leader")
	c := g.client(client.Config{Leaders: []string{addr}})
	j := c.submit("much")
	for n := range 3 {
		worker := g.worker("worker", 1, []string{addr})
		g.untilWritten("pids", 2*n+2)
		if n < 2 {
			worker.kill()
		}
	}
	g.write("go")
	if r := c.result(j); r.Status != wire.OK {
		t.Errorf("the result is %s %q", r.Status, r.Stderr)
	}
	if dirty := g.written("dirty"); len(dirty) > 0 {
		t.Errorf("the next attempt has met a %s", strings.Join(dirty, ", a "))
	}
	for n := range g.written("pids") {
		until(t, time.Minute, "no process is left", func() bool { return g.gone("pids", n) })
	}
}

// A job that kills its worker is given up after five of them, and no other job suffers.
func TestG43JobThatKillsFiveWorkersIsDeadLetter(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	g := newFaultGrid(t)
	g.program("poison", `echo $$ >>"$DIR/poisoned"; kill -9 $PPID; sleep 100`)
	g.program("quick", `echo done`)
	addr := freeAddr(t)
	g.leader(addr, "leader")
	workers := map[string]*process{"a": nil, "b": nil, "c": nil}
	keep := func() {
		for name, p := range workers {
			if p == nil || p.hasEnded() {
				workers[name] = g.worker(name, 1, []string{addr})
			}
		}
	}
	c := g.client(client.Config{Leaders: []string{addr}})
	poison := c.submit("poison")
	var others []*client.Job
	for range 30 {
		others = append(others, c.submit("quick"))
	}
	for _, j := range append(others, poison) {
		until(t, time.Minute, "job has ended", func() bool {
			keep()
			select {
			case <-j.Done():
				return true
			default:
				return false
			}
		})
	}
	for _, j := range others {
		if r := c.result(j); r.Status != wire.OK {
			t.Errorf("another job ends with %s %s %q", r.Status, r.Reason, r.Message)
		}
	}
	if r := c.result(poison); r.Status != wire.Failed || r.Reason != wire.ReasonDeadLetter || !strings.Contains(r.Message, "5 workers") {
		t.Errorf("the job ends with %s %s %q", r.Status, r.Reason, r.Message)
	}
	if n := len(g.written("poisoned")); n != 5 {
		t.Errorf("it ran %d times", n)
	}
}

// Programs that do not stop, and children that hold their output, take no slot from others.
func TestG66UnstoppableProgramsFreeTheirSlot(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	g := newFaultGrid(t)
	g.program("stopped", `trap "" TERM; echo $$ >>"$DIR/pids"; kill -STOP $$`)
	g.program("forks", `setsid sh -c "echo \$\$ >>'$DIR/pids'; touch '$DIR/forked'; sleep 1000" & while [ ! -e "$DIR/forked" ]; do sleep 0.01; done; echo done`)
	addr := freeAddr(t)
	g.leader(addr, "")
	g.worker("worker", 1, []string{addr}, "--kill-grace", "200ms")
	c := g.client(client.Config{Leaders: []string{addr}})
	stopped := c.submitRequest(wire.JobRequest{ExecName: "stopped", Options: wire.Options{TimeoutMs: 500}})
	forks := c.submit("forks")
	if r := c.result(stopped); r.Status != wire.Failed || r.Reason != wire.ReasonTimeout {
		t.Errorf("a program that stops itself ends with %s %s %q", r.Status, r.Reason, r.Message)
	}
	if r := c.result(forks); r.Status != wire.OK || r.Stdout != "done\n" {
		t.Errorf("one whose child holds its output ends with %s %q %q", r.Status, r.Stdout, r.Message)
	}
	for n := range 2 {
		until(t, time.Minute, "no process is left", func() bool { return g.gone("pids", n) })
	}
}
