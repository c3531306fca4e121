package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/internal/testnet"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// remote is gateways on one Redis, and agents that reach them over HTTP.
type remote struct {
	*world
	*settings
	ledger   *gatewayLedger
	bug      Bug
	jobs     []job
	byID     map[jobs.ID]job
	gateways []*place
	agents   []*place
	stopping chan struct{}
	running  sync.WaitGroup

	mu   sync.Mutex
	open map[string]*testnet.Pipes // of the gateways that run
	next int                       // which of them is dialed next
}

const gatewayLease = time.Minute

// rules are those of the queue.
func (r *remote) rules() queue.Rules {
	rules := queue.DefaultRules
	rules.LeaseTTL = gatewayLease
	return rules
}

// names returns the names of the gateways that run, in order. r.mu is held.
func (r *remote) dialGateway(ctx context.Context, network, addr string) (net.Conn, error) {
	r.mu.Lock()
	var pipes *testnet.Pipes
	for range r.gateways {
		r.next++
		if pipes = r.open[r.gateways[r.next%len(r.gateways)].name]; pipes != nil {
			break
		}
	}
	r.mu.Unlock()
	if pipes == nil {
		return nil, errCut
	}
	return pipes.Dial(ctx, network, addr)
}

// gateListener gives the connections that a gateway accepts to its link.
type gateListener struct {
	*testnet.Pipes
	l *link
}

// Accept implements [net.Listener].
func (g gateListener) Accept() (net.Conn, error) {
	inner, err := g.Pipes.Accept()
	if err != nil {
		return nil, err
	}
	return g.l.adopt(inner), nil
}

// runGateway is the life of one gateway.
func (r *remote) runGateway(ctx context.Context, s *place, p *process) {
	rdb := r.redis.client(p.link(toRedis))
	defer rdb.Close()
	q := queue.New(rdb, r.rules())
	log := r.logger(p.name)
	c := &control.Control{Queue: q, Log: log, Metrics: control.NewMetrics("sim", q)}
	pipes := testnet.NewPipes()
	r.mu.Lock()
	r.open[s.name] = pipes
	r.mu.Unlock()
	var beside sync.WaitGroup
	beside.Go(func() { c.Run(ctx) })
	beside.Go(func() {
		<-ctx.Done()
		r.mu.Lock()
		if r.open[s.name] == pipes {
			delete(r.open, s.name)
		}
		r.mu.Unlock()
		_ = pipes.Close()
	})
	server := &httpd.Server{Handler: c.Handler(), Log: log, MaxConns: 100}
	_ = server.Serve(ctx, gateListener{pipes, p.link("agents")})
	beside.Wait()
}

// runAgent is the life of one agent.
func (r *remote) runAgent(ctx context.Context, s *place, p *process) {
	dir, log := s.directory(), r.logger(p.name)
	tokens, err := gateway.OpenTokenFile(filepath.Join(r.dir, s.name+".token"))
	if err != nil {
		panic(err) // made when the world began
	}
	l := p.link(toGateway)
	c, err := gateway.NewClient(gateway.ClientConfig{
		URL: "http://127.0.0.1:1", Tokens: tokens, Version: "sim",
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx, r.dialGateway) },
	})
	if err != nil {
		panic(err) // nothing is reached for
	}
	defer c.Close()
	view := store{s.objects, p.link(toStore)}
	var plane gateway.ControlPlane = c
	if r.bug.plane != nil {
		plane = r.bug.plane(c)
	}
	a := &gateway.Agent{
		Gateway: watchedPlane{plane, r.ledger}, Kind: "zpe", Store: view, Dir: dir, Log: log,
		Encode: func(text []byte) (q wire.ResultRequest, err error) { err = json.Unmarshal(text, &q); return q, err },
		Forget: func(ctx context.Context, id jobs.ID) error { return view.Delete(ctx, resultOf(id)) },
	}
	if err := a.Open(ctx); err != nil {
		r.ledger.failf("%s cannot open its directory: %v", p.name, err)
		return
	}
	delivering, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { a.Run(delivering) })
	force := make(chan struct{})
	beside.Go(func() {
		select {
		case <-delivering.Done():
		case <-p.died:
			close(force)
			stop()
		}
	})
	w := &worker.Worker{
		Source: a, Status: a, Handlers: map[jobs.Kind]worker.Handler{"zpe": calculator{r.byID, view, func() { r.kill(s, p, true) }}},
		Log: log, Checks: map[string]func(context.Context) error{"agent directory": a.Check, "storage": view.Check},
		Pools: []worker.Pool{{Slots: r.slots}}, ForceStop: force,
	}
	if err := w.Run(ctx); err != nil {
		r.note("%s: ends: %v", p.name, err)
	}
	stop()
	beside.Wait()
	if err := a.Close(); err != nil {
		r.note("%s: closes: %v", p.name, err)
	}
}

// directory is where an agent of this place keeps its state.
func (s *place) directory() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir
}

// kill kills a process at a place. What it writes to its disk while it ends is not there for the
// next one: that gets a copy of this moment.
func (r *remote) kill(s *place, p *process, power bool) {
	r.redis.mu.Lock()
	defer r.redis.mu.Unlock()
	if p == nil || p.isDead() {
		return
	}
	p.kill(power)
	r.note("%s: killed (the others see it: %v)", p.name, power)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		s.dir = copyDir(s.dir, r.mkdir(p.name+".left"))
	}
}

// copyDir copies a directory of files and directories of files.
func copyDir(from, to string) string {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if err == nil && e.IsDir() {
			if err = os.Mkdir(filepath.Join(to, e.Name()), 0o700); err == nil {
				copyDir(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
			}
			continue
		}
		text, readErr := os.ReadFile(filepath.Join(from, e.Name()))
		if errors.Is(readErr, os.ErrNotExist) {
			continue // it was being replaced
		}
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(to, e.Name()), text, 0o600))
	}
	if err != nil {
		panic(err) // the test's own directory
	}
	return to
}

func resultOf(id jobs.ID) string { return "results/" + string(id) + "/result.json" }

// calculator runs the jobs of agents.
type calculator struct {
	jobs  map[jobs.ID]job
	store store
	kill  func()
}

// Earlier implements [worker.Handler].
func (c calculator) Earlier(ctx context.Context, j jobs.Job) (jobs.Result, bool, error) {
	f, err := c.store.Open(ctx, resultOf(j.ID))
	if errors.Is(err, os.ErrNotExist) {
		return jobs.Result{}, false, nil
	}
	if err != nil {
		return jobs.Result{}, false, err
	}
	return jobs.Result{Object: resultOf(j.ID)}, true, f.Close()
}

// Run implements [worker.Handler].
func (c calculator) Run(ctx context.Context, j jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	does := c.jobs[j.ID]
	for n := 1; n <= does.pages; n++ {
		if err := jobs.Sleep(ctx, does.pageTime); err != nil {
			return jobs.Result{}, err
		}
		report(jobs.Progress{Done: n, Total: does.pages})
		if n < does.at {
			continue
		}
		switch does.does {
		case fails:
			return jobs.Result{}, &jobs.Failure{Code: faultCode, Final: does.pages%2 == 0, Retry: does.pages%3 == 0, RetryAfter: does.backoff, Err: errors.New(ownFault)}
		case kills:
			c.kill()
			<-ctx.Done()
			return jobs.Result{}, context.Cause(ctx)
		case ends:
		}
	}
	return jobs.Result{Object: resultOf(j.ID), Pages: does.pages}, c.store.Put(ctx, resultOf(j.ID), strings.NewReader(resultText(j.ID)))
}

// faultCode is that of a job that fails by its own fault.
const faultCode = "SIM_FAULT"

// resultText is what an agent stores of a job.
func resultText(id jobs.ID) string {
	return fmt.Sprintf(`{"result":%s,"summary_text":"","freqs_csv":""}`, wantResult(id))
}

// wantResult is the result of a job, as the gateway keeps it.
func wantResult(id jobs.ID) string { return fmt.Sprintf(`{"job":%q}`, id) }
