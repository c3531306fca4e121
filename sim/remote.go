package sim

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox/outboxtest"
)

// gatewayFaults are the faults of gateways and agents.
var gatewayFaults = []choice{
	{what: "kill", weight: 5},
	{what: "power", weight: 3},
	{what: "stop", weight: 4},
	{what: "freeze", weight: 6, low: 5 * time.Second, high: 100 * time.Second},
	{what: "cut", weight: 5, low: time.Second, high: 100 * time.Second, network: true},
	{what: "silent", weight: 5, low: time.Second, high: 100 * time.Second, network: true},
	{what: "slow", weight: 3, low: 5 * time.Second, high: time.Minute, network: true},
	{what: "redis down", weight: 2, low: time.Second, high: 50 * time.Second, all: true},
	{what: "failover", weight: 3, low: time.Millisecond, high: 5 * time.Second, all: true},
	{what: "leap", weight: 1, low: time.Second, high: time.Minute, all: true},
	{what: "disk full", weight: 2, low: 5 * time.Second, high: time.Minute, all: true},
}

// Gateway runs gateways and agents. It must be called in a bubble of testing/synctest.
func Gateway(seed uint64, dir string, log io.Writer, bug Bug) Report {
	w := newWorld(seed, dir, log)
	w.redis.forgetful = bug.noReplica
	r := &remote{world: w, bug: bug, settings: drawSettings(seed), byID: map[jobs.ID]job{}, stopping: make(chan struct{}), open: map[string]*testnet.Pipes{}}
	r.jobs = drawJobs(seed, r.faultsFor)
	for _, j := range r.jobs {
		r.byID[j.id] = j
	}
	r.ledger = newGatewayLedger(w, r.jobs)
	w.redis.wrote, w.redis.moved = r.ledger.wrote, r.ledger.moved
	ctx, cancel := context.WithCancel(context.Background())
	p := r.add(client)
	rdb := w.redis.client(p.link(toRedis))
	q := queue.New(rdb, r.rules())
	w.note("seed %d: %d agents with %d slots, one call in %d fails, faults for %s", seed, r.workers, r.slots, r.callsPerFault, r.faultsFor)
	for _, j := range r.jobs {
		w.note("%+v", j)
	}
	targets := r.start(ctx, q)
	for _, e := range drawPlan(seed, gatewayFaults, targets, r.faultsFor) {
		w.trace.add(e.String())
		w.after(e.at, func() { r.apply(e) })
	}
	var submitting sync.WaitGroup
	submitting.Go(func() { r.submit(ctx, q) })
	time.Sleep(r.faultsFor)
	w.setCalm()
	if !until(ctx, settleLimit, func() bool { return w.isQuiet() && (r.settled() || r.ledger.isBroken()) }) {
		r.ledger.failf("%s after the last fault not all is done: %q, undelivered: %q", settleLimit, r.ledger.unfinished(), r.undelivered())
	}
	close(r.stopping)
	r.running.Wait()
	submitting.Wait()
	r.audit(ctx)
	cancel()
	_ = rdb.Close()
	w.end()
	return Report{Broken: r.ledger.wrong, Trace: w.trace.all(), Took: w.age()}
}

// start makes gateways and agents, which get their tokens before the first fault.
func (r *remote) start(ctx context.Context, q *queue.Queue) (targets []target) {
	for n := range 2 {
		s := &place{name: fmt.Sprintf("gateway-%d", n)}
		r.gateways, targets = append(r.gateways, s), append(targets, target{s.name, []string{toRedis, "agents"}})
		r.running.Go(func() {
			r.serve(ctx, s, r.stopping, func(ctx context.Context, s *place, p *process) {
				p.roll(r.callsPerFault, toRedis)
				r.runGateway(ctx, s, p)
			})
		})
	}
	for n := range r.workers {
		s := &place{name: fmt.Sprintf("agent-%d", n), objects: newObjects()}
		s.objects.put = func(string, string, []byte, []byte) {}
		s.dir = r.mkdir(s.name)
		r.register(ctx, q, s)
		r.agents, targets = append(r.agents, s), append(targets, target{s.name, []string{toGateway, toStore}})
		r.running.Go(func() {
			r.serve(ctx, s, r.stopping, func(ctx context.Context, s *place, p *process) {
				p.roll(r.callsPerFault, toGateway, toStore)
				r.runAgent(ctx, s, p)
			})
		})
	}
	return targets
}

// register gives an agent its token.
func (r *remote) register(ctx context.Context, q *queue.Queue, s *place) {
	enroll, _, err := q.Enroll(ctx, s.name, time.Hour)
	if err != nil {
		panic(err) // there are no faults yet
	}
	got, err := q.Register(ctx, queue.Registration{EnrollToken: enroll, Name: s.name, Meta: "{}"})
	if err == nil {
		err = gateway.SaveToken(filepath.Join(r.dir, s.name+".token"), gateway.Token{WorkerID: got.Worker, Token: got.Token, IssuedAt: got.At, ExpiresAt: got.Expires})
	}
	if err != nil {
		panic(err)
	}
	r.ledger.places[got.Worker] = s
}

// apply makes an event happen.
func (r *remote) apply(e event) {
	r.note("fault: %s %s %s %s", e.what, e.who, e.to, e.d)
	all := slices.Concat(r.gateways, r.agents)
	p, stop := find(all, e.who)
	switch e.what {
	case "kill", "power":
		for _, s := range all {
			if s.name == e.who {
				r.kill(s, p, e.what == "kill")
			}
		}
	case "stop":
		stop()
	default:
		r.world.apply(p, e)
	}
}

// submit queues the jobs at their time, and cancels those that are to be canceled.
func (r *remote) submit(ctx context.Context, q *queue.Queue) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for _, j := range r.jobs {
		sending.Go(func() {
			_ = jobs.Sleep(ctx, j.submit)
			for {
				if _, err := q.Submit(ctx, j.id, []byte(`{}`), ""); err == nil || ctx.Err() != nil {
					break
				}
				_ = jobs.Sleep(ctx, time.Second)
			}
			r.ledger.mark(j.id, func(a *gatewayAccount) { a.submitted = true })
		})
		if j.cancel > 0 {
			sending.Go(func() {
				_ = jobs.Sleep(ctx, j.cancel+time.Second)
				r.ledger.mark(j.id, func(a *gatewayAccount) { a.asked = true })
				ended, err := q.Cancel(ctx, j.id)
				r.note("job %s is to be canceled: %s %v", j.id, ended, err)
			})
		}
	}
}

// settled reports whether all jobs have ended and all outcomes are delivered.
func (r *remote) settled() bool { return len(r.ledger.unfinished()) == 0 && len(r.undelivered()) == 0 }

// undelivered returns the entries of agents that are neither delivered nor retained.
func (r *remote) undelivered() (left []string) {
	for _, s := range r.agents {
		entries, _ := outboxtest.Entries(s.directory()) // there is none before the agent has run
		for _, text := range entries {
			if !strings.Contains(text, `"state":"left"`) {
				left = append(left, s.name+" "+text)
			}
		}
	}
	return left
}

// audit looks at what is left once all processes have ended.
func (r *remote) audit(ctx context.Context) {
	rdb := r.redis.client(r.add("audit").link(toRedis)) // those that submitted have connections that were cut
	defer rdb.Close()
	report, err := queue.New(rdb, r.rules()).Fsck(ctx, false)
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.broken("audit: %v", err)
	}
	if report.Left > 0 || report.Unchecked > 0 {
		l.broken("at the end fsck finds %+v", report.Findings)
	}
	if len(l.wrong) > 0 {
		return // it was not waited for the rest
	}
	r.redis.view(func(db *miniredis.Miniredis) {
		for _, key := range []string{"zpe:delay", "zpe:lease:index", "zpe:jobs:queued", "zpe:jobs:started"} {
			if left, _ := db.ZMembers(key); len(left) > 0 {
				l.broken("at the end %s holds %v", key, left)
			}
		}
		for _, a := range l.accounts {
			if late := db.HGet("zpe:late:"+string(a.id), "lease_id"); late != "" && a.last.status == "finished" {
				l.broken("job %s is finished and has a late result", a.id)
			}
		}
	})
}
