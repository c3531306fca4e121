package cli

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/internal/testnet"
)

// faultyLine is a TCP proxy before a leader, which does to connections what networks do.
type faultyLine struct {
	addr, leader string

	mu     sync.Mutex
	conns  map[*faultyConn]bool
	down   bool
	frozen time.Time // nothing passes before
	delay  time.Duration
}

// faultyConn is a connection through the proxy: both ends of it.
type faultyConn struct {
	ends   [2]net.Conn
	halved bool // what comes next is cut in the middle. Guarded by faultyLine.mu.
}

func newFaultyLine(t *testing.T, leader string) *faultyLine {
	t.Helper()
	f := &faultyLine{leader: leader, conns: map[*faultyConn]bool{}}
	f.addr, _ = testnet.Serve(t, testnet.AnyPort, f.serve)
	return f
}

func (f *faultyLine) serve(ctx context.Context, l net.Listener) error {
	var passing sync.WaitGroup
	defer passing.Wait()
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close()
		f.freeze(0)
		f.setDown(true)
	})
	defer stop()
	for {
		from, err := l.Accept()
		if err != nil {
			return nil
		}
		passing.Go(func() { f.pass(ctx, from) })
	}
}

// pass passes what both ends of a connection send, until one of them ends.
func (f *faultyLine) pass(ctx context.Context, from net.Conn) {
	to, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", f.leader)
	if err != nil {
		reset(from)
		return
	}
	c := &faultyConn{ends: [2]net.Conn{from, to}}
	f.mu.Lock()
	f.conns[c] = true
	down := f.down
	f.mu.Unlock()
	if down {
		c.cut()
	}
	var both sync.WaitGroup
	both.Go(func() { f.pump(c, from, to) })
	both.Go(func() { f.pump(c, to, from) })
	both.Wait()
	f.mu.Lock()
	delete(f.conns, c)
	f.mu.Unlock()
}

func (f *faultyLine) pump(c *faultyConn, from, to net.Conn) {
	defer c.cut()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		f.hold()
		f.mu.Lock()
		halved := c.halved
		f.mu.Unlock()
		if halved {
			n /= 2
		}
		if _, err := to.Write(buf[:n]); err != nil || halved {
			return
		}
	}
}

// hold waits while nothing passes.
func (f *faultyLine) hold() {
	f.mu.Lock()
	delay := f.delay
	f.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
	for {
		f.mu.Lock()
		wait := time.Until(f.frozen)
		f.mu.Unlock()
		if wait <= 0 {
			return
		}
		<-time.After(min(wait, 10*time.Millisecond))
	}
}

func (c *faultyConn) cut() {
	reset(c.ends[0])
	reset(c.ends[1])
}

// reset ends a connection so that the other end has an error, also of what it was sent.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be closed
	}
	_ = conn.Close()
}

// cut ends all connections.
func (f *faultyLine) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.cut()
	}
}

// halve ends all connections in the middle of what they pass next.
func (f *faultyLine) halve() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.halved = true
	}
}

// freeze lets nothing pass for a while.
func (f *faultyLine) freeze(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = time.Now().Add(d)
}

// slow lets all pass a little later, or at once again.
func (f *faultyLine) slow(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = d
}

// setDown cuts the line, or makes it whole.
func (f *faultyLine) setDown(down bool) {
	f.mu.Lock()
	f.down = down
	f.mu.Unlock()
	if down {
		f.cut()
	}
}
