package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

const (
	nullTurn  = time.Second // of each that is measured, by turns
	nullTurns = 7
)

// gridLoad is what ran n jobs, or requests.
type gridLoad struct {
	rate           float64   // a second
	server, others float64   // processor time for each, of the server alone and of worker and client together, in µs
	memory         []float64 // of server and worker, in bytes
}

// measureLoad runs n jobs, beside processes; the first one is the server.
func measureLoad(processes []*process, n int, run func(n int) error) (l gridLoad, err error) {
	before, err := cpuOfAll(processes)
	if err != nil {
		return l, err
	}
	own, began := ownCPU(), time.Now()
	if err := run(n); err != nil {
		return l, err
	}
	took := time.Since(began)
	after, err := cpuOfAll(processes)
	if err != nil {
		return l, err
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
	l.rate = float64(n) / took.Seconds()
	l.server = each(after[0] - before[0])
	l.others = each(ownCPU() - own)
	for i := 1; i < len(after); i++ {
		l.others += each(after[i] - before[i])
	}
	for _, p := range processes {
		m, err := p.memory("VmHWM")
		if err != nil {
			return l, err
		}
		l.memory = append(l.memory, m)
	}
	return l, nil
}

func cpuOfAll(processes []*process) (all []time.Duration, err error) {
	for _, p := range processes {
		used, err := p.cpu()
		if err != nil {
			return nil, err
		}
		all = append(all, used)
	}
	return all, nil
}

// gridCaller is a client of the grid.
type gridCaller struct {
	*client.Multi
	stop  context.CancelFunc
	ended chan struct{}
}

func callGrid(ctx context.Context, leader string, desired, window int) (*gridCaller, error) {
	m, err := client.New(client.Config{ClientID: gridClient, Leaders: []string{leader}, Desired: desired, Window: window, Log: quietLog()})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &gridCaller{m, stop, make(chan struct{})}
	go func() {
		defer close(c.ended)
		_ = m.Run(ctx) // the calls find out
	}()
	return c, c.call(ctx)
}

func (c *gridCaller) close() { c.stop(); <-c.ended }

// call runs one job.
func (c *gridCaller) call(ctx context.Context) error {
	j, err := c.Submit(ctx, wire.JobRequest{ExecName: gridExec, Args: []string{"1"}})
	if err != nil {
		return err
	}
	_, err = j.WaitPayload(ctx)
	return err
}

// callRaw keeps so many jobs under way over a connection until n of them have ended.
func callRaw(conn *link.Conn, atOnce, n int) error {
	sent, got := 0, 0
	var out []wire.Frame
	for got < n {
		for ; sent < n && sent < got+atOnce; sent++ {
			out = append(out, nullSubmit(gridClient))
		}
		if err := conn.Send(out...); err != nil {
			return err
		}
		out = out[:0]
		for first := true; first || conn.Ready(); first = false {
			f, err := conn.Receive()
			if err != nil {
				return err
			}
			if f.Type == wire.Result {
				got++
			}
		}
	}
	return nil
}

// A nullPeer is one of those that gridNull compares.
type nullPeer struct {
	name      string
	processes []*process
	run       func(n int) error
	loads     []gridLoad
	n         int // of a turn
}

// gridNull compares jobs that do nothing with requests over NATS: 64 under way at once.
func gridNull(ctx context.Context, r *report) error {
	n, err := startNATS(ctx)
	if err != nil {
		return err
	}
	defer n.stop()
	peers := []*nullPeer{{name: "nats", processes: n.processes(), run: func(count int) error { return repeat(gridSlots, count, n.ask) }}}
	for _, kept := range []string{"memory", "always", "interval"} {
		dir := ""
		if kept != "memory" {
			dir = filepath.Join(r.dir, "leader-"+kept)
		}
		g, err := startGrid(ctx, dir, kept, gridSlots, "all")
		if err != nil {
			return err
		}
		defer g.stop()
		c, err := callGrid(ctx, g.leader.address(), gridSlots, 0)
		if err != nil {
			return err
		}
		defer c.close()
		peers = append(peers, &nullPeer{name: kept, processes: g.processes(), run: func(count int) error {
			return repeat(gridSlots, count, func() error { return c.call(ctx) })
		}})
	}
	bare, err := startGrid(ctx, "", "", gridSlots, "")
	if err != nil {
		return err
	}
	defer bare.stop()
	conn, err := dialGridClient(ctx, bare.leader.address(), gridClient, gridSlots)
	if err != nil {
		return err
	}
	peers = append(peers, &nullPeer{name: "raw", processes: bare.processes(), run: func(count int) error { return callRaw(conn, gridSlots, count) }})
	if err := takeTurns(peers); err != nil {
		return err
	}
	reportNull(r, peers)
	return nil
}

// takeTurns measures each of peers by turns. How much is a turn, the first one finds out.
func takeTurns(peers []*nullPeer) error {
	for turn := range nullTurns + 1 {
		for _, p := range peers {
			if turn == 0 {
				p.n = 20_000
			}

			l, err := measureLoad(p.processes, p.n, p.run)
			if err != nil {
				return err
			}
			if turn == 0 {
				p.n = max(2000, int(l.rate*nullTurn.Seconds()))
				continue
			}
			p.loads = append(p.loads, l)

		}
	}
	return nil
}

// reportNull reports what takeTurns has measured of NATS, three leaders and the raw connection.
func reportNull(r *report, peers []*nullPeer) {
	best := func(p *nullPeer) (most float64) {
		for _, l := range p.loads {
			most = max(most, l.rate)
		}
		return most
	}
	each := func(p *nullPeer, value func(gridLoad) float64) float64 {
		var all []float64
		for _, l := range p.loads {
			all = append(all, value(l))
		}
		return median(all)
	}
	against := func(a, b *nullPeer) float64 {
		var all []float64
		for i := range a.loads {
			all = append(all, a.loads[i].rate/b.loads[i].rate)
		}
		return median(all)
	}
	nats, memory, always, interval, raw := peers[0], peers[1], peers[2], peers[3], peers[4]
	r.add("NATS, requests, 64 at once", each(nats, func(l gridLoad) float64 { return l.rate }), "requests/s", bar{})
	for _, p := range []struct {
		*nullPeer
		name string
		bar  bar
	}{
		{memory, "jobs that do nothing, 64 at once, leader in memory", atLeast(50_000)},
		{raw, "… by a client and a worker that are no more than connections", bar{}},
		{always, "… leader on disk, synced before each promise", bar{}},
		{interval, "… leader on disk, synced each second", bar{}},
	} {
		r.add(p.name, each(p.nullPeer, func(l gridLoad) float64 { return l.rate }), "jobs/s", p.bar)
		r.add("… the best turn", best(p.nullPeer), "jobs/s", bar{})
	}
	r.add("leader in memory against NATS", against(memory, nats), "ratio", atLeast(1))
	r.add("… raw connections against NATS", against(raw, nats), "ratio", atLeast(1))
	r.add("leader on disk, synced before each promise, against memory", against(always, memory), "ratio", atLeast(0.3))
	r.add("leader on disk, synced each second, against memory", against(interval, memory), "ratio", bar{})
	for _, p := range peers {
		r.add("processor time of the server, "+p.name, each(p, func(l gridLoad) float64 { return l.server }), "µs/job", bar{})
		r.add("… of worker and client", each(p, func(l gridLoad) float64 { return l.others }), "µs/job", bar{})
		r.add("… memory of the server, at most", p.loads[len(p.loads)-1].memory[0]/1e6, "MB", bar{})
		r.add("… of the worker", p.loads[len(p.loads)-1].memory[1]/1e6, "MB", bar{})
	}
}
