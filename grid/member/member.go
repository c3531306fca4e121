package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/outbox"
	"github.com/batchfleet/batchfleet/worker"
)

var (
	_ worker.Prober = (*Member)(nil)
	_ worker.Status = (*Member)(nil)
)

// Kind is the kind of all jobs of the grid, so that none is left to other workers: the pattern has told the leader which execs run
// here.
const Kind jobs.Kind = "exec"

// Member connects the loop of package worker to leaders: it is the loop's worker.Source and its worker.Status.
//
// Set the exported fields, call [Member.Open], then [Member.Run] beside the loop's Run, and [Member.Drain] when the loop is told to stop.
// End Run after the loop's has returned, and then call [Member.Close]. Programs report no progress, so the loop's StallTimeout must be as
// long as its JobTimeout. All methods but Open, Run and Close may be called concurrently.
type Member struct {
	Leaders []string // host:port of each
	// Dial connects to a leader. Nil for plain TCP.
	Dial        func(ctx context.Context, addr string) (net.Conn, error)
	Pattern     string    // of the subjects of jobs; [wire.DefaultPattern] if empty
	MaxParallel int       // jobs at once, those of all leaders together; as many as the loop has slots
	ID          wire.GUID // random if zero
	Token       string
	Host        string // for people; that of the machine if empty
	Version     string
	Dir         string // for undelivered results; one process at a time
	Gate        *Gate  // holds credits back while the CPU is busy; nil for never
	// KeepRunning is how long jobs go on whose leader is gone. It is also how long the machine may sleep before its jobs are stopped.
	// 10 min if zero.
	KeepRunning time.Duration
	Log         *slog.Logger
	Metrics     *Metrics // nil for none

	outbox *outbox.Box
	peers  []*peer
	work   chan struct{} // holds a token while a job may wait for a slot

	mu          sync.Mutex
	runs        map[wire.GUID]*run // in hand: those that wait for a slot, and those that run
	leases      map[string]*run    // the same by the id of their lease
	leased      int                // how many leases there were, for their ids
	waiting     []*run             // for a slot, in the order in which they came
	asking      int                // slots that ask for a job
	undelivered map[recipient]*delivery
	bytes       int // of the undelivered results
	cache       cache
	changed     chan struct{} // closed when a connection has come or gone
	down        time.Time     // since when there has been no connection at all; zero while there is one
	draining    bool
}

const (
	defaultKeepRunning = 10 * time.Minute
	maxUndelivered     = 5000      // results that may wait before no more jobs are taken; a box reads at most 10,000
	maxUndeliveredSize = 256 << 20 // bytes of them: they are in memory as well
	finalTimeout       = 5 * time.Second
	maxParallel        = wire.MaxCredit
	maxHost            = 255 // bytes, also of the version

	// Why jobs are handed back.
	draining = "draining"
	busy     = "busy"
)

// Open checks the settings, locks the directory and reads the results that an earlier process has left there. The error wraps
// [outbox.ErrInUse] when another process uses the directory.
func (m *Member) Open(ctx context.Context) error {
	if err := m.check(); err != nil {
		return err
	}
	m.work = make(chan struct{}, 1)
	m.runs, m.leases, m.undelivered = map[wire.GUID]*run{}, map[string]*run{}, map[recipient]*delivery{}
	m.changed, m.down = make(chan struct{}), time.Now()
	for i, addr := range m.Leaders {
		share := m.MaxParallel / len(m.Leaders)
		if i < m.MaxParallel%len(m.Leaders) {
			share++
		}
		// One that gets none would never be asked. The slots of the loop still bound what runs.
		m.peers = append(m.peers, &peer{Member: m, addr: addr, share: max(1, share), lost: time.Now()})
	}
	if m.Gate != nil {
		m.Gate.Running = m.running
		if m.Gate.Usage == nil {
			m.Gate.Usage = NewUsage()
		}
	}
	return m.openOutbox(ctx)
}

// check returns what is wrong with the settings, and fills in defaults.
func (m *Member) check() error {
	var errs []error
	seen := map[string]bool{}
	for _, addr := range m.Leaders {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			errs = append(errs, fmt.Errorf("leader %.300q must be host:port", addr))
		} else if len(addr) > maxAddr {
			errs = append(errs, fmt.Errorf("leader %.40s… has %d bytes, at most %d", addr, len(addr), maxAddr))
		} else if seen[addr] {
			errs = append(errs, fmt.Errorf("leader %s is there twice", addr))
		}
		seen[addr] = true
	}
	if len(m.Leaders) == 0 {
		errs = append(errs, errors.New("no leader is given: name at least one, as host:port"))
	}
	if m.MaxParallel < 1 || m.MaxParallel > maxParallel {
		errs = append(errs, fmt.Errorf("%d jobs at once, must be 1 to %d", m.MaxParallel, maxParallel))
	}
	m.Pattern = cmp.Or(m.Pattern, wire.DefaultPattern)
	if err := subject.CheckPattern(m.Pattern); err != nil {
		errs = append(errs, err)
	}
	if m.KeepRunning < 0 {
		errs = append(errs, fmt.Errorf("jobs go on for %s without their leader, must be more than 0", m.KeepRunning))
	}
	if m.Dial == nil {
		m.Dial = dial
	}
	if m.ID.IsZero() {
		m.ID = wire.NewGUID()
	}
	if m.Host == "" {
		m.Host, _ = os.Hostname() // it is for people
	}
	if m.Metrics == nil {
		m.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	m.KeepRunning = cmp.Or(m.KeepRunning, defaultKeepRunning)
	return errors.Join(errs...)
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// Run keeps the connections and delivers results until ctx ends. Then it drains, and results have a few seconds to arrive; the rest is
// delivered by the next process. It owns every goroutine it starts.
func (m *Member) Run(ctx context.Context) {
	// Connections outlast the deliveries.
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	var background sync.WaitGroup
	for _, p := range m.peers {
		background.Go(func() { p.run(connected) })
	}
	if m.Gate != nil {
		background.Go(func() { m.watchCPU(connected) })
	}
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(drained); m.Drain() })
	m.outbox.Run(ctx)
	if !stop() {
		<-drained
	}
	disconnect()
	background.Wait()
}

// Close lets another process have the directory.
func (m *Member) Close() error { return m.outbox.Close() }

// Drain tells the leaders that this worker takes no more jobs, and hands back those that wait for a slot. Jobs that run go on.
func (m *Member) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.draining {
		return
	}
	m.draining = true
	for len(m.waiting) > 0 {
		r := m.waiting[0]
		m.handBack(r, draining)
		m.drop(r)
	}
	for _, p := range m.peers {
		if s := p.session; s != nil {
			s.drain()
		}
	}
}

// Check returns an error when no more jobs should be taken: results cannot be written to disk, or too many wait for delivery. It is for
// worker.Checks.
func (m *Member) Check(context.Context) error {
	if err := m.outbox.Check(); err != nil {
		return fmt.Errorf("check directory %s: %w: %w", m.Dir, jobs.ErrUnavailable, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.undelivered); n >= maxUndelivered || m.bytes >= maxUndeliveredSize {
		return fmt.Errorf("%w: %d results of %d bytes wait for delivery, no jobs are taken until their leaders accept them", jobs.ErrUnavailable, n, m.bytes)
	}
	return nil
}

// running returns how many jobs are in hand.
func (m *Member) running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.runs)
}
