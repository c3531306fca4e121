package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// event is a fault of the plan of a run.
type event struct {
	at   time.Duration
	what string
	who  string // the place of a worker; empty when all are concerned
	to   string // a service, for faults of the network
	d    time.Duration
}

func (e event) String() string {
	return fmt.Sprintf("%10s  plan: %s %s %s %s", e.at, e.what, e.who, e.to, e.d)
}

// choice is a kind of fault, and how often it is chosen.
type choice struct {
	what      string
	weight    int
	low, high time.Duration // how long it lasts
	all       bool          // concerns all
	network   bool
}

// fleetFaults are the faults of a fleet.
var fleetFaults = []choice{
	{what: "kill", weight: 4},
	{what: "power", weight: 3},
	{what: "stop", weight: 4},
	{what: "freeze", weight: 14, low: 5 * time.Second, high: 70 * time.Second},
	{what: "cut", weight: 5, low: time.Second, high: time.Minute, network: true},
	{what: "silent", weight: 5, low: time.Second, high: time.Minute, network: true},
	{what: "slow", weight: 3, low: 5 * time.Second, high: time.Minute, network: true},
	{what: "redeliver", weight: 4},
	{what: "redis down", weight: 2, low: time.Second, high: 50 * time.Second, all: true},
	{what: "failover", weight: 2, low: time.Millisecond, high: 5 * time.Second, all: true},
	{what: "leap", weight: 2, low: time.Second, high: time.Minute, all: true},
	{what: "leap back", weight: 1, low: time.Second, high: time.Minute, all: true},
	{what: "disk full", weight: 2, low: 5 * time.Second, high: time.Minute, all: true},
	{what: "pubsub down", weight: 2, low: time.Second, high: 50 * time.Second, all: true},
}

// target is a place that faults may hit, and the services that it needs.
type target struct {
	name     string
	services []string
}

// drawPlan returns the faults of a seed, in order.
func drawPlan(seed uint64, choices []choice, targets []target, over time.Duration) []event {
	r := random(seed, "plan")
	sum := 0
	for _, c := range choices {
		sum += c.weight
	}
	plan := make([]event, 4+r.IntN(16))
	for i := range plan {
		n, at := r.IntN(sum), 0
		for n >= choices[at].weight {
			n -= choices[at].weight
			at++
		}
		plan[i] = choices[at].event(r, targets, over)
	}
	slices.SortStableFunc(plan, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return plan
}

func (c choice) event(r *rand.Rand, targets []target, over time.Duration) event {
	e := event{at: between(r, time.Second, over), what: c.what}
	who := targets[r.IntN(len(targets))]
	to := who.services[r.IntN(len(who.services))]
	if c.high > 0 {
		e.d = between(r, c.low, c.high)
	}
	if !c.all {
		e.who = who.name
	}
	if c.network {
		e.to = to
	}
	return e
}

// apply makes an event happen.
func (f *fleet) apply(e event) {
	f.note("fault: %s %s %s %s", e.what, e.who, e.to, e.d)
	p, stop := find(f.places, e.who)
	switch e.what {
	case "kill", "power":
		f.kill(p, e.what == "kill")
	case "stop":
		stop()
	case "redeliver":
		f.redeliver(p)
	case "pubsub down":
		for _, s := range f.places {
			p, _ := s.current()
			p.link(toPubSub).fault(event{what: "cut", d: e.d})
		}
	default:
		f.world.apply(p, e)
	}
}

// find returns the process that runs at a place, and what stops it.
func find(places []*place, name string) (*process, context.CancelFunc) {
	for _, s := range places {
		if s.name == name {
			return s.current()
		}
	}
	return nil, nil
}

// apply makes an event happen that is the same in all runs.
func (w *world) apply(p *process, e event) {
	switch e.what {
	case "freeze":
		p.fault(func(on bool) {
			if p.freezes--; on {
				p.freezes += 2
			}
			p.frozen = p.freezes > 0
		}, e.d)
	case "cut", "silent", "slow":
		p.link(e.to).fault(e)
	case "redis down":
		w.trouble(w.redis.setDown, e.d)
	case "failover":
		w.lose(func() { w.redis.failover(e.d) })
	case "leap":
		w.lose(func() { w.redis.leap(e.d) })
	case "leap back":
		w.lose(func() { w.redis.leap(-e.d) })
	case "disk full":
		w.trouble(w.setFull, e.d)
	default:
		panic("no such fault: " + e.what)
	}
}

// fault sets a fault of the network.
func (l *link) fault(e event) {
	l.p.fault(func(on bool) {
		switch e.what {
		case "cut":
			l.cut = on
		case "silent":
			l.silent = on
		case "slow":
			l.delayed = 0
			if on {
				l.delayed = e.d / 40
			}
		}
	}, e.d)
	if e.what == "cut" {
		l.breakAll()
	}
}

// breakAll breaks the connections over a link.
func (l *link) breakAll() {
	w := l.p.w
	w.mu.Lock()
	var open []*conn
	for c := range l.conns {
		open = append(open, c)
	}
	w.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// redeliver makes Pub/Sub deliver again what a worker has in hand.
func (f *fleet) redeliver(p *process) {
	f.ledger.mu.Lock()
	var acks []string
	for id, h := range f.ledger.leases {
		if h.p == p {
			acks = append(acks, id)
		}
	}
	f.ledger.mu.Unlock()
	outsider := f.outsider.Load()
	if outsider == nil {
		return // nothing is submitted yet
	}
	if err := outsider.HandBack(context.Background(), queueName, acks); err != nil {
		f.note("cannot redeliver: %v", err)
	}
}
