package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// gridChaos is a grid whose processes are killed and whose connections fail: three leaders, two of them durable, a worker of each and one of all,
// and a client of all.
type gridChaos struct {
	*faultGrid
	plan   gridPart
	random *rand.Rand
	lines  []*faultyLine // before the leaders
	parts  []*chaosPart
	client *chaosPart
	kills  int
}

// chaosPart is a process that is started again when it was killed.
type chaosPart struct {
	*process
	command func() *exec.Cmd
}

// A leader that has started gives its workers 10 s to come back with what they ran. While it is killed more often, that fills the share of the client.
const (
	killsInARow = 50
	calm        = 12 * time.Second
)

// bigChaos reports whether the environment asks for the large tests, which take minutes.
func bigChaos() bool { return os.Getenv("GRIDCHAOS") != "" }

// Each job has one result, whatever is killed: those of a leader that stays away are given to another one, with the same id.
func TestG54KillsLeaveOneResultPerJob(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	plan, kills := gridPart{Jobs: 3000, Exec: "null", Every: 2 * time.Millisecond}, 30
	if bigChaos() {
		plan.Jobs, plan.Every, kills = 100_000, 0, 1<<30
	}
	c := newGridChaos(t, plan, func(g *faultGrid, name string, leaders []string) *exec.Cmd {
		return g.partCommand(&gridPart{Leaders: leaders, Dir: g.path(name), Ran: g.path("ran")})
	})
	c.run(kills)
	c.account()
}

func TestG54KillsLeaveOneResultPerProgram(t *testing.T) {
	t.Parallel()
	testrun.Once(t, kills)
	plan, kills := gridPart{Jobs: 200, Exec: "real", Every: 20 * time.Millisecond}, 20
	if bigChaos() {
		plan.Jobs, plan.Every, kills = 5000, 0, 1<<30
	}
	c := newGridChaos(t, plan, func(g *faultGrid, name string, leaders []string) *exec.Cmd {
		return g.workerCommand(name, 4, leaders)
	})
	c.program("real", `echo $GRID_JOB_ID >>"$DIR/ran"; echo done`)
	c.run(kills)
	c.account()
}

func newGridChaos(t *testing.T, plan gridPart, workerCommand func(g *faultGrid, name string, leaders []string) *exec.Cmd) *gridChaos {
	t.Helper()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any
	t.Logf("seed %d", seed)
	c := &gridChaos{faultGrid: newFaultGrid(t), plan: plan, random: rand.New(rand.NewPCG(seed, 0))}
	c.plan.Base, c.plan.Ledger, c.plan.Grace = wire.NewGUID(), c.path("ledger"), time.Second
	var addrs []string
	for i := range 3 {
		addr, dir := freeAddr(t), fmt.Sprint("leader", i)
		if i == 2 {
			dir = "" // it keeps nothing
		}
		c.lines = append(c.lines, newFaultyLine(t, addr))
		addrs = append(addrs, c.lines[i].addr)
		c.add(func() *exec.Cmd { return c.leaderCommand(addr, dir) }).untilLogged("leader listens on")
	}
	c.plan.Leaders = addrs
	for i, leaders := range [][]string{addrs[:1], addrs[1:2], addrs[2:], addrs} {
		name := fmt.Sprint("worker", i)
		if err := os.MkdirAll(c.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
		c.add(func() *exec.Cmd { return workerCommand(c.faultGrid, name, leaders) })
	}
	c.client = c.add(func() *exec.Cmd { return c.partCommand(&c.plan) })
	return c
}

func (c *gridChaos) add(command func() *exec.Cmd) *chaosPart {
	p := &chaosPart{launch(c.t, command()), command}
	c.parts = append(c.parts, p)
	return p
}

// run kills a process every 200 ms, so many times at most, until the client has ended.
func (c *gridChaos) run(kills int) {
	c.t.Helper()
	began := time.Now()
	for c.kills < kills && !c.client.hasEnded() {
		<-time.After(200 * time.Millisecond)
		p := c.parts[c.random.IntN(len(c.parts))]
		if c.client.hasEnded() {
			break
		}
		p.kill()
		p.process = launch(c.t, p.command())
		if c.kills++; c.kills%3 == 0 {
			c.fault()
		}
		if c.kills%killsInARow == 0 {
			select {
			case <-c.client.ended:
			case <-time.After(calm):
			}
		}
	}
	chaos := time.Since(began)
	for _, l := range c.lines {
		l.slow(0)
	}
	if code := c.client.exitCode(3 * time.Minute); code != 0 {
		c.t.Fatalf("the client has ended with %d:\n%s", code, c.client.log)
	}
	c.t.Logf("%d kills in %s; all results were there after %s", c.kills, chaos.Round(time.Second/10), time.Since(began).Round(time.Second/10))
}

// fault lets a line fail, or a process stand still for a while.
func (c *gridChaos) fault() {
	line := c.lines[c.random.IntN(len(c.lines))]
	switch c.random.IntN(5) {
	case 0:
		line.cut()
	case 1:
		line.halve()
	case 2:
		line.freeze(time.Duration(c.random.IntN(1500)) * time.Millisecond)
	case 3:
		line.slow(time.Duration(c.random.IntN(40)) * time.Millisecond)
	case 4:
		p := c.parts[c.random.IntN(len(c.parts))].process
		_ = p.Process.Signal(syscall.SIGSTOP) // it may have ended
		time.AfterFunc(time.Duration(c.random.IntN(2000))*time.Millisecond, func() { _ = p.Process.Signal(syscall.SIGCONT) })
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// account checks that each job has one result, and that all parts can stop.
func (c *gridChaos) account() {
	t := c.t
	t.Helper()
	results := map[string]int{}
	how := map[string]int{}
	ledger, err := os.Open(c.plan.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	for lines := bufio.NewScanner(ledger); lines.Scan(); {
		id, result, _ := strings.Cut(lines.Text(), " ")
		results[id]++
		how[strings.TrimSpace(result)]++
	}
	for n := range c.plan.Jobs {
		if id := c.plan.id(n).String(); results[id] != 1 {
			t.Errorf("job %s has %d results", id, results[id])
		}
	}
	if len(results) != c.plan.Jobs {
		t.Errorf("the ledger has %d names, want %d", len(results), c.plan.Jobs)
	}
	ran := map[string]int{}
	again, most := 0, 0
	for _, id := range c.written("ran") {
		if ran[id]++; ran[id] > 1 {
			again++
		}
		most = max(most, ran[id])
	}
	t.Logf("results: %v; %d jobs ran, %d more times than once, one of them %d times", how, len(ran), again, most)
	if how["OK"]+how["FAILED dead_letter"] != c.plan.Jobs || how["OK"] < c.plan.Jobs*99/100 {
		t.Errorf("the results are %v", how)
	}
	for _, p := range slices.Backward(c.parts[:len(c.parts)-1]) { // all but the client, which has ended
		if code, _ := p.terminate(); code != 0 {
			t.Errorf("%v ends with %d:\n%s", p.Args[1:], code, cmp.Or(p.log.String(), "silent"))
		}
	}
}
