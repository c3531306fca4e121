package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/retry"
)

// peer is a leader.
type peer struct {
	*Member
	addr  string
	share int // jobs of its own that it may have here

	// Guarded by Member.mu.
	session *session  // nil while there is no connection
	lost    time.Time // since when there is none
	trouble error     // why there is none
	refused bool      // the leader does not take this worker
	places  int       // of its share that are taken: by jobs in hand, and by results that were not sent yet
}

// reconnect is when a connection is opened again. The waits begin with the first one after a connection that has lasted for stableFor.
var reconnect = retry.Policy{First: 500 * time.Millisecond, Max: 36 * time.Second, Jitter: 0.2}

const (
	stableFor   = 30 * time.Second
	dialTimeout = 10 * time.Second
	renewEvery  = 10 * time.Second
	// welcomeTimeout is how long a new connection waits for a Welcome before its leader counts as one of the original protocol. Until
	// then no results of an earlier connection are sent, as it is not known whether they will be acknowledged.
	welcomeTimeout = 5 * time.Second
)

// run keeps a connection to the leader until ctx ends.
func (p *peer) run(ctx context.Context) {
	delays := reconnect.Delays()
	for {
		began := time.Now()
		err := p.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= stableFor {
			delays.Reset()
		}
		wait := delays.Next()
		p.Log.WarnContext(ctx, "no connection to the leader, trying again", "leader", p.addr, "retry_in", wait, "err", err)
		if jobs.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// connect opens a connection and serves it until it ends, and returns why.
func (p *peer) connect(ctx context.Context) error {
	s := &session{peer: p, sending: make(chan struct{}, 1), limited: make(chan struct{}, 1), known: make(chan struct{})}
	call, cancel := context.WithTimeout(ctx, dialTimeout)
	conn, err := p.Dial(call, p.addr)
	cancel()
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.trouble = err
		return err
	}
	s.Conn = link.New(conn, link.Options{Dialed: true, Written: s.written})
	s.blobs = blob.NewClient(s.Send)
	var beside sync.WaitGroup
	beside.Go(func() { s.keep(ctx) })
	err = p.begin(s)
	for err == nil {
		var f wire.Frame
		if f, err = s.Receive(); err == nil {
			err = s.receive(f)
		}
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the leader has closed the connection")
	}
	s.Abort(err)
	p.end(s, err)
	s.blobs.Close()
	beside.Wait()
	return err
}

// begin greets the leader, with the credits that it has from the beginning.
func (p *peer) begin(s *session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	hello, err := p.hello()
	if err != nil {
		return err
	}
	frames := []wire.Frame{hello}
	if n := p.room(); n > 0 && !p.draining {
		s.granted = int64(n)
		frames = append(frames, credit(n))
	}
	if err := s.Send(frames...); err != nil {
		return err
	}
	p.session, p.refused, p.down = s, false, time.Time{}
	p.Metrics.connected.Inc()
	p.linkChanged()
	return nil
}

// end forgets a connection, because of err.
func (p *peer) end(s *session, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = err
	if s.refusal != nil {
		p.refused, p.trouble = true, s.refusal
	}
	if p.session != s {
		return // it was never greeted
	}
	p.session, p.lost = nil, time.Now()
	p.Metrics.connected.Dec()
	p.down = time.Now()
	for _, other := range p.peers {
		if other.session != nil {
			p.down = time.Time{}
		}
	}
	p.linkChanged()
}

// linkChanged wakes those that wait for a connection to come or go. m.mu is held.
func (m *Member) linkChanged() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// gone reports whether the leader has been away for so long that its jobs are stopped. Member.mu is held.
func (p *peer) gone() bool { return p.session == nil && time.Since(p.lost) >= p.KeepRunning }

// outageAfter is how long there may be no connection at all before Lease returns an error.
const outageAfter = 5 * time.Second

// outage returns why there are no jobs to be had, or nil, and when to ask again; zero for not before something changes. m.mu is held.
func (m *Member) outage() (wait time.Duration, err error) {
	if m.down.IsZero() {
		return 0, nil
	}
	refused := 0
	var why []error
	for _, p := range m.peers {
		if p.refused {
			refused++
		}
		if p.trouble != nil {
			why = append(why, fmt.Errorf("leader %s: %w", p.addr, p.trouble))
		}
	}
	switch left := outageAfter - time.Since(m.down); {
	case refused == len(m.peers):
		return 0, refusal{errors.Join(why...)}
	case left > 0:
		return left, nil
	case len(why) == 0:
		return 0, fmt.Errorf("%w: no connection to a leader yet", jobs.ErrUnavailable)
	}
	return 0, fmt.Errorf("%w: no connection to a leader: %w", jobs.ErrUnavailable, errors.Join(why...))
}
