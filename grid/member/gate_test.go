package member_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// gate is a gate with samples of the test's choice.
type gate struct {
	member.Gate
	running, passed int
}

func newGate(running int) *gate {
	g := &gate{running: running}
	g.Cap, g.Cores, g.Running = 0.75, 2, func() int { return g.running }
	return g
}

func (g *gate) release(n int) {
	for range n {
		g.Release(func() { g.passed++ })
	}
}

// sample gives it n samples, as they come.
func (g *gate) sample(n int, used float64) {
	for range n {
		time.Sleep(250 * time.Millisecond)
		g.Sample(used)
	}
}

func (g *gate) want(t *testing.T, when string, passed int) {
	t.Helper()
	if g.passed != passed {
		t.Errorf("%s: %d credits have passed, want %d", when, g.passed, passed)
	}
}

func inBubble(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

func TestG64Gate(t *testing.T) {
	t.Run("while the CPU is below the cap a credit passes at once", inBubble(func(t *testing.T) {
		g := newGate(4)
		g.release(3)
		g.want(t, "before the first sample", 3)
		g.sample(40, 0.74)
		g.release(100)
		g.want(t, "below the cap", 103)
	}))
	t.Run("a short peak holds nothing", inBubble(func(t *testing.T) {
		g := newGate(4)
		g.sample(40, 0.5)
		g.sample(1, 1)
		g.release(1)
		g.want(t, "after one sample", 1)
		g.sample(8, 1)
		g.release(1)
		g.want(t, "after two seconds", 1)
	}))
	t.Run("what is held passes when the CPU is well below the cap, one for each core and sample", inBubble(func(t *testing.T) {
		g := newGate(4)
		g.sample(1, 0.9)
		g.release(5)
		g.sample(20, 0.72)
		g.want(t, "just below the cap", 0)
		for used := 1; g.passed == 0 && used < 40; used++ {
			g.sample(1, 0.5)
		}
		g.want(t, "first", 2)
		g.release(1)
		g.want(t, "behind those that are held", 2)
		g.sample(1, 0.5)
		g.want(t, "second", 4)
		g.sample(1, 0.5)
		g.want(t, "third", 6)
		g.release(1)
		g.want(t, "then", 7)
	}))
	t.Run("nothing is held for much longer than 30 s", inBubble(func(t *testing.T) {
		g := newGate(4)
		g.sample(1, 1)
		g.release(3)
		g.sample(119, 1)
		g.want(t, "after 29.75 s", 0)
		g.sample(1, 1)
		g.want(t, "after 30 s", 1)
		g.sample(2, 1)
		g.want(t, "soon after", 3)
	}))
}

func TestP9IdleGatePassesCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		g.sample(1, 1)
		g.release(2)
		g.want(t, "while a job runs", 0)
		g.running = 0
		g.sample(1, 1)
		g.want(t, "within a sample", 1)
		g.release(1)
		g.want(t, "at once", 2)
		g.sample(1, 1)
		g.want(t, "and the last one", 3)
		if busy := g.Busy(); busy != 1 {
			t.Errorf("busy %g, want 1", busy)
		}
	})
}

// busyMachine is one whose CPU does nothing but work.
type busyMachine struct{ busy *atomic.Int64 }

func (m busyMachine) Open(name string) (fs.File, error) {
	return fstest.MapFS{"proc/stat": &fstest.MapFile{Data: fmt.Appendf(nil, "cpu  %d 0 0 500 0\n", m.busy.Add(25))}}.Open(name)
}

func TestG64CreditsWaitForTheCPU(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.member.Gate = &member.Gate{Cap: 0.75, Cores: 1, Usage: member.UsageOf(busyMachine{new(atomic.Int64)})}
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Duration(job.ID[len(job.ID)-1]-'0') * time.Second)
			return ok(job, "")
		})
		want(r, "at the hello", l.heard(wire.Credit), "Credit 2")
		time.Sleep(5*time.Second + 10*time.Millisecond) // between two samples
		l.assign(1, 11)
		l.assign(9, 19)
		time.Sleep(2 * time.Second)
		want(r, "while the other one runs", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 11 OK")
		time.Sleep(7 * time.Second)
		want(r, "when nothing runs", l.heard(wire.AckJob, wire.Credit), "AckJob 9 as 19 OK; Credit 1")
		time.Sleep(250 * time.Millisecond)
		want(r, "within a sample", l.heard(wire.Credit), "Credit 1")
		time.Sleep(10 * time.Second)
		var info wire.RenewInfo
		if err := json.Unmarshal(l.lastSaid(wire.Renew).Payload, &info); err != nil || info.CPU < 0.99 {
			r.Errorf("a Renew says that the CPU is %g, %v; want some 1", info.CPU, err)
		}
	})
}
