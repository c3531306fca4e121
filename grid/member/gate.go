package member

import (
	"context"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

const (
	sampleEvery = 250 * time.Millisecond
	// weight is that of a sample in the average: it makes the average one of about a second.
	weight = 0.22
	// hysteresis is how far the CPU must be below the cap before what is held passes again.
	hysteresis = 0.05
	maxHold    = 30 * time.Second
)

// Gate holds credits back while the CPU is busy: a leader assigns no job that would only make the others slower. It lets everything pass at
// once while the CPU is below the cap, and something when nothing runs here: what makes the CPU busy then is not this worker. It holds
// nothing for much longer than 30 s. Set the fields before the first call. Its methods may be called concurrently.
type Gate struct {
	Cap     float64    // of the CPU, from 0.10 to 0.95 of it
	Cores   int        // how many credits pass at once after they were held
	Usage   *Usage     // what the CPU does; that of this machine if nil
	Running func() int // how many jobs run; [Member.Open] sets it

	mu      sync.Mutex
	average float64
	sampled bool
	closed  bool
	held    []heldCredit // oldest first
}

type heldCredit struct {
	since time.Time
	give  func()
}

// Release calls give: at once if the CPU allows that, or else later, by [Gate.Sample].
func (g *Gate) Release(give func()) {
	g.mu.Lock()
	if (g.closed || len(g.held) > 0) && g.Running() > 0 {
		g.held = append(g.held, heldCredit{time.Now(), give})
		g.mu.Unlock()
		return
	}
	g.mu.Unlock()
	give()
}

// Sample is told which part of the CPU was used since the last call, from 0 to 1. It is called each 250 ms, by one goroutine.
func (g *Gate) Sample(used float64) {
	g.mu.Lock()
	if !g.sampled {
		g.average, g.sampled = used, true
	}
	g.average += weight * (used - g.average)
	switch {
	case g.average >= g.Cap:
		g.closed = true
	case g.average < g.Cap-hysteresis:
		g.closed = false
	}
	n := 0
	switch {
	case len(g.held) == 0:
	case !g.closed:
		n = min(max(1, g.Cores), len(g.held))
	case g.Running() == 0 || time.Since(g.held[0].since) >= maxHold:
		n = 1
	}
	pass := g.held[:n:n]
	g.held = g.held[n:]
	g.mu.Unlock()
	for _, c := range pass {
		c.give()
	}
}

// Busy returns which part of the CPU was used in the last second or so, 0 while that is not known.
func (g *Gate) Busy() float64 {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.average
}

// watchCPU samples the CPU until ctx ends. While that does not work, the gate is open.
func (m *Member) watchCPU(ctx context.Context) {
	failing := false
	for jobs.Sleep(ctx, sampleEvery) == nil {
		used, err := m.Gate.Usage.Sample()
		if err != nil && !failing {
			m.Log.WarnContext(ctx, "cannot measure the CPU, credits are given without regard to it", "err", err)
		}
		failing = err != nil
		m.Gate.Sample(used)
		m.Metrics.cpu.Set(m.Gate.Busy())
	}
}
