// Package monitor sees all scopes of one server of the Job API at one look: it makes the overview, and the stream of
// changes of all jobs. It reads a scope only while somebody asks, however many do, and only through the interfaces of
// package jobapi.
package monitor

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

const (
	// callTimeout bounds one call of a Jobs; an answer waits a little less for it.
	callTimeout = 5 * time.Second
	answerWait  = 4500 * time.Millisecond
	// Changes are read for so long after the last stream has ended, and after the last overview.
	afterStream   = 30 * time.Second
	afterOverview = 10 * time.Second
)

// Monitor implements [jobapi.Watch]. Use [New].
type Monitor struct {
	server *jobapi.Server
	once   sync.Once
	scopes []*scope
	ring   ring
	texts  texts
	asked  chan struct{} // holds one while somebody begins to ask

	mu      sync.Mutex
	streams int
	until   time.Time // changes are read until then, and while there are streams
}

// New returns the monitor of a server, whose scopes may still be added to. The caller makes it the server's Watch, whose
// Run runs it.
func New(s *jobapi.Server) *Monitor {
	return &Monitor{server: s, asked: make(chan struct{}, 1)}
}

func (m *Monitor) init() {
	m.once.Do(func() {
		for _, sc := range m.server.Scopes {
			m.scopes = append(m.scopes, &scope{Scope: sc, monitor: m, numbers: newNumbers(), seen: newSeen()})
		}
		m.ring.restart()
	})
}

// Run implements [jobapi.Watch]: it takes a sample of each scope every 10 s, and reads what changes while somebody asks.
func (m *Monitor) Run(ctx context.Context) {
	m.init()
	var all sync.WaitGroup
	for _, s := range m.scopes {
		all.Go(func() { s.sampling(ctx) })
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-m.asked:
			m.follow(ctx)
		}
	}
	all.Wait()
}

// follow reads what changes in all scopes until there was no request for a while.
func (m *Monitor) follow(ctx context.Context) {
	reading, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, s := range m.scopes {
		all.Go(func() { s.feed(reading) })
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for m.wanted() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	stop()
	all.Wait()
	m.ring.restart() // what changes from now on is not known: whoever comes back reads all again
}

func (m *Monitor) wanted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.streams > 0 || time.Now().Before(m.until)
}

// want counts streams, and has changes read for at least so long.
func (m *Monitor) want(streams int, atLeast time.Duration) {
	m.mu.Lock()
	m.streams += streams
	if until := time.Now().Add(atLeast); until.After(m.until) {
		m.until = until
	}
	m.mu.Unlock()
	select {
	case m.asked <- struct{}{}:
	default:
	}
}

// Changed implements [jobapi.Watch].
func (m *Monitor) Changed() {
	m.init()
	for _, s := range m.scopes {
		s.stale()
	}
}

// safely calls f and returns its panic as an error: that of one scope must not end the others.
func (s *scope) safely(ctx context.Context, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.monitor.server.Log.ErrorContext(ctx, "panic", "scope", s.Name, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}
