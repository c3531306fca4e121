package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// errDead is what a killed process gets from whatever it calls: nothing reaches anybody.
var errDead = errors.New("the process was killed")

// errCut is what breaks a connection.
var errCut = fmt.Errorf("the network is cut: %w", net.ErrClosed)

// process is one of the fleet: what can be killed or frozen as a whole. Its ways to others
// are links.
type process struct {
	w    *world
	name string

	// Guarded by w.mu.
	dead    bool
	died    chan struct{} // closed when it is killed
	frozen  bool
	freezes int // that hold it
	links   map[string]*link
	bad     time.Time // when a fault of it or of one of its links ended last
	faults  int       // that it has now
	cutOff  bool      // it ended in the time of a fault, so it may not have told anybody
}

func (w *world) newProcess(name string) *process {
	return &process{w: w, name: name, links: map[string]*link{}, died: make(chan struct{})}
}

// link is the way from a process to a service. Everything that the process sends or
// gets there passes it, and waits there while the process is frozen or the network is
// cut.
type link struct {
	p    *process
	to   string
	dice *dice

	// Guarded by w.mu.
	cut     bool // calls and connections break at once
	silent  bool // nothing arrives, and nothing says so
	delayed time.Duration
	conns   map[*conn]bool
}

// link returns the way to a service.
func (p *process) link(to string) *link {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	l := p.links[to]
	if l == nil {
		l = &link{p: p, to: to, dice: newDice(p.w.seed, p.name, to), conns: map[*conn]bool{}}
		p.links[to] = l
	}
	return l
}

// pass returns once what a process sends or gets may pass, or why it does not. done ends
// the wait, and so does the deadline, unless it is zero or the process is frozen.
func (l *link) pass(done <-chan struct{}, deadline time.Time) error {
	w := l.p.w
	delayed := false
	for {
		w.mu.Lock()
		dead, frozen, cut, silent, delay, changed := l.p.dead, l.p.frozen, l.cut, l.silent, l.delayed, w.changed
		w.mu.Unlock()
		late := deadline
		var wake <-chan time.Time
		switch {
		case dead:
			return errDead
		case frozen:
			late = time.Time{}
		case cut:
			return errCut
		case silent:
		case delay > 0 && !delayed:
			wake, changed, delayed = time.After(delay), nil, true
		default:
			return nil
		}
		if err := waitFor(done, changed, wake, late); err != nil {
			return err
		}
	}
}

// waitFor waits for changed or wake. Done and the deadline end it with an error.
func waitFor(done, changed <-chan struct{}, wake <-chan time.Time, deadline time.Time) error {
	var late <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-changed:
		return nil
	case <-wake:
		return nil
	case <-done:
		return net.ErrClosed
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

// call is pass for a call with a context, such as one of the store. A frozen process does
// not notice that the context has ended.
func (l *link) call(ctx context.Context) error {
	err := l.pass(ctx.Done(), time.Time{})
	l.p.thaw()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// thaw returns once the process is not frozen.
func (p *process) thaw() {
	for {
		p.w.mu.Lock()
		frozen, changed := p.frozen && !p.dead, p.w.changed
		p.w.mu.Unlock()
		if !frozen {
			return
		}
		<-changed
	}
}

// conn is a connection of a process, in memory, that faults can reach.
type conn struct {
	net.Conn
	l     *link
	done  chan struct{}
	close func()

	mu            sync.Mutex
	read, written time.Time // deadlines
}

// dial connects to a listener.
func (l *link) dial(ctx context.Context, to func(ctx context.Context, network, addr string) (net.Conn, error)) (net.Conn, error) {
	if err := l.call(ctx); err != nil {
		return nil, err
	}
	inner, err := to(ctx, "tcp", "")
	if err != nil {
		return nil, err
	}
	return l.adopt(inner), nil
}

// adopt makes a connection one over the link.
func (l *link) adopt(inner net.Conn) *conn {
	c := &conn{Conn: inner, l: l, done: make(chan struct{})}
	c.close = sync.OnceFunc(func() { close(c.done) })
	w := l.p.w
	w.mu.Lock()
	l.conns[c] = true
	w.mu.Unlock()
	return c
}

// Read gets what has come, unless a fault is in the way.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.l.pass(c.done, c.deadline(&c.read)) // a frozen process does not see that it was closed
		return n, err
	}
	if perr := c.l.pass(c.done, c.deadline(&c.read)); perr != nil {
		return 0, c.failed(perr)
	}
	return n, err
}

// Write sends b, unless a fault is in the way.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.l.pass(c.done, c.deadline(&c.written)); err != nil {
		return 0, c.failed(err)
	}
	if c.l.dice.breaks() {
		c.l.p.hiccup("connection to %s breaks", c.l.to)
		_ = c.Close()
		return 0, errCut
	}
	return c.Conn.Write(b)
}

// failed closes what can no longer be used: a part of it is lost.
func (c *conn) failed(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.Close()
	}
	return err
}

func (c *conn) deadline(at *time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *at
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.read = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.written = t
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(t)
}

// Close implements [net.Conn]. The other side learns nothing of it from a process that
// has lost its power: such a connection is closed with the world.
func (c *conn) Close() error {
	c.close()
	w := c.l.p.w
	w.mu.Lock()
	lost := c.l.silent || c.l.p.dead
	delete(c.l.conns, c)
	if lost {
		w.lost = append(w.lost, c.Conn)
	}
	w.mu.Unlock()
	if lost {
		return c.Conn.SetDeadline(time.Unix(1, 0)) // what it waits to read must end
	}
	return c.Conn.Close()
}

// kill ends a process: nothing of it has any effect from now on. With power its connections
// end as well, and the others see it; without they do not.
func (p *process) kill(power bool) {
	w := p.w
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		return
	}
	p.dead, p.bad = true, time.Now()
	close(p.died)
	var open []io.Closer
	for _, l := range p.links {
		for c := range l.conns {
			c.close()
			if power {
				open = append(open, c.Conn)
			} else {
				w.lost = append(w.lost, c.Conn)
				_ = c.Conn.SetDeadline(time.Unix(1, 0))
			}
		}
		l.conns = map[*conn]bool{}
	}
	w.wake()
	w.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// isDead reports whether it was killed.
func (p *process) isDead() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.dead
}

// fault sets a fault of a process that lasts for d. set is called with w.mu held.
func (p *process) fault(set func(on bool), d time.Duration) {
	w := p.w
	change := func(on bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		set(on)
		if on {
			p.faults++
		} else {
			p.faults--
			p.bad = time.Now()
		}
		w.wake()
	}
	change(true)
	w.after(d, func() { change(false) })
}
