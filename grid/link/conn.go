package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Limits of a connection that Options can change.
const (
	MaxUnsent     = 16 << 20         // bytes that wait to be written
	WriteTimeout  = 10 * time.Second // for each 256 KiB of what is written
	HelloTimeout  = 10 * time.Second // for the first frame
	FrameTimeout  = 30 * time.Second // for each 64 KiB of a frame that has begun
	PingEvery     = 10 * time.Second // to a peer that answers
	SilenceLimit  = 30 * time.Second // of such a peer
	LingerTimeout = time.Second      // for the end of a peer that was told that the connection is closed
)

// ErrSlow means that a peer does not read what it is sent: the connection was closed.
var ErrSlow = errors.New("the peer does not read what it is sent")

// ErrSilent means that a peer has not answered: the connection was closed.
var ErrSilent = errors.New("the peer is silent")

// Options are the settings of a connection. The zero value has the limits above.
type Options struct {
	MaxUnsent int // bytes
	// Dialed means that this end has opened the connection: the peer, which is greeted, need not answer with a frame of its own.
	Dialed bool
	// Written is told, in order, of the ids that were given to [Conn.SendWith] and whose frames were written. It is called by the writer
	// and must not wait. Nil for nothing.
	Written func(ids []wire.GUID)
	// Count is told of each frame that is received, and of how many were sent by one write. It must not wait. Nil for nothing.
	Count func(received, sent int)
}

// Conn is a connection to a peer. Its methods may be called concurrently, but Receive by one goroutine.
type Conn struct {
	conn   net.Conn
	opts   Options
	reader *wire.Reader

	mu      sync.Mutex
	room    *sync.Cond // signaled when something was written, and at the end
	queue   queue
	closing bool  // no more is taken; what waits is written
	err     error // why it has ended
	pings   bool  // the peer answers pings

	wake   chan struct{}
	ended  chan struct{} // closed with the connection
	writer sync.WaitGroup
	within bool // a frame has begun; of the reader
	greet  bool // the first frame has not come yet; of the reader

	reading sync.Mutex // held while bytes are read
	over    bool       // frames are no longer read; guarded by reading
}

// New starts the writer of a connection. Close must be called.
func New(conn net.Conn, opts Options) *Conn {
	if opts.MaxUnsent == 0 {
		opts.MaxUnsent = MaxUnsent
	}
	c := &Conn{conn: conn, opts: opts, wake: make(chan struct{}, 1), ended: make(chan struct{}), greet: !opts.Dialed}
	c.room = sync.NewCond(&c.mu)
	c.reader = wire.NewReader(conn)
	c.reader.Part = c.limit
	keepAlive(conn)
	c.writer.Go(c.write)
	return c
}

// RemoteAddr returns the address of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// Send queues frames to be written, all or none. It does not wait. Their payloads must not be changed any more. The error wraps [wire.ErrTooLarge] for a frame that can never be
// written, and then the connection goes on; otherwise it is why the connection has ended, such as [ErrSlow].
func (c *Conn) Send(frames ...wire.Frame) error {
	for i := range frames {
		if err := frames[i].Check(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	if err := c.refusal(); err != nil {
		c.mu.Unlock()
		return err
	}
	for i := range frames {
		c.queue.add(&frames[i])
	}
	return c.queued()
}

// SendWith is Send of one frame, for which Options.Written is told the id.
func (c *Conn) SendWith(f wire.Frame, id wire.GUID) error {
	if err := f.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	if err := c.refusal(); err != nil {
		c.mu.Unlock()
		return err
	}
	c.queue.add(&f)
	c.queue.ids = append(c.queue.ids, id)
	return c.queued()
}

// queued unlocks c.mu, after something was queued.
func (c *Conn) queued() error {
	slow := c.queue.bytes > c.opts.MaxUnsent
	c.mu.Unlock()
	if slow {
		c.end(ErrSlow)
		return ErrSlow
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// Wait waits until less than half of the bytes that may wait do so, for senders that have more than they can queue. The error is the cause of ctx, or why the
// connection has ended.
func (c *Conn) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queue.bytes > c.opts.MaxUnsent/2 && c.refusal() == nil && ctx.Err() == nil {
		c.room.Wait()
	}
	if err := c.refusal(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Unsent returns how many bytes wait to be written.
func (c *Conn) Unsent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.bytes
}

// refusal returns why nothing more is taken, or nil. c.mu is held.
func (c *Conn) refusal() error {
	if c.err == nil && c.closing {
		return net.ErrClosed
	}
	return c.err
}

// write writes what is queued, until the connection ends.
func (c *Conn) write() {
	ping := time.NewTicker(PingEvery)
	defer ping.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-ping.C:
			c.mu.Lock()
			if c.pings && c.queue.bytes == 0 && !c.closing {
				c.queue.add(&wire.Frame{Type: wire.Ping, MsgID: wire.NewGUID()})
			}
			c.mu.Unlock()
		case <-c.wake:
			runtime.Gosched() // others that are about to send share the write
		}
		for {
			c.mu.Lock()
			batch := c.queue.take()
			last := c.closing
			c.mu.Unlock()
			if batch.frames == 0 {
				if last {
					c.linger()
					c.end(net.ErrClosed)
				}
				break
			}
			if err := c.flush(batch); err != nil {
				c.end(err)
				return
			}
		}
	}
}

func (c *Conn) flush(b batch) error {
	for rest := b.buffers; len(rest) > 0; {
		if err := c.conn.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
			return err
		}
		now := cut(&rest, piece)
		if _, err := now.WriteTo(c.conn); err != nil {
			if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
				return fmt.Errorf("%w for %s", ErrSlow, WriteTimeout)
			}
			return fmt.Errorf("write to %s: %w", c.conn.RemoteAddr(), err)
		}
	}
	c.mu.Lock()
	c.queue.written(b)
	c.room.Broadcast()
	c.mu.Unlock()
	if c.opts.Count != nil {
		c.opts.Count(0, b.frames)
	}
	if len(b.ids) > 0 && c.opts.Written != nil {
		c.opts.Written(b.ids)
	}
	return nil
}

// Receive returns the next frame. Pings are answered, and pongs left out. The error is io.EOF when the peer has closed the connection
// between two frames, and why it has ended otherwise; the connection is then closed.
func (c *Conn) Receive() (wire.Frame, error) {
	for {
		f, err := c.read()
		if err != nil {
			return wire.Frame{}, c.receiveError(err)
		}
		c.within = false
		if c.opts.Count != nil {
			c.opts.Count(1, 0)
		}
		if c.greet {
			c.greet = false
			return f, nil
		}
		switch f.Type {
		case wire.Ping:
			if err := c.Send(wire.Frame{Type: wire.Pong, MsgID: wire.NewGUID(), CorrID: f.MsgID}); err != nil {
				return wire.Frame{}, err
			}
		case wire.Pong:
		default:
			return f, nil
		}
	}
}

// Ready reports whether another frame has arrived already, so that Receive will not wait. It is called by the goroutine that calls Receive.
func (c *Conn) Ready() bool {
	t, ok := c.reader.Next()
	return ok && t != wire.Ping && t != wire.Pong // behind those there may be nothing
}

// read reads a frame, unless what comes is discarded.
func (c *Conn) read() (wire.Frame, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.over {
		return wire.Frame{}, net.ErrClosed
	}
	return c.reader.Read()
}

func (c *Conn) receiveError(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		switch {
		case c.greet:
			err = fmt.Errorf("%w: no hello within %s", ErrSilent, HelloTimeout)
		case c.within:
			err = fmt.Errorf("%w: a part of a frame has come, and then nothing for %s", ErrSilent, FrameTimeout)
		default:
			err = fmt.Errorf("%w for %s", ErrSilent, SilenceLimit)
		}
	}
	c.end(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err // what has ended it first
}

// limit sets how long the reader waits for what comes next. It is called by the reader.
func (c *Conn) limit(within bool) {
	c.within = within
	var wait time.Duration
	switch {
	case c.greet:
		if within {
			return // the first frame has one limit
		}
		wait = HelloTimeout
	case within:
		wait = FrameTimeout
	default:
		c.mu.Lock()
		pings := c.pings
		c.mu.Unlock()
		if !pings {
			_ = c.conn.SetReadDeadline(time.Time{})
			return
		}
		wait = SilenceLimit
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(wait))
}

// Ping makes the connection send a ping when there is nothing else to send, and end when the peer, which answers them, is silent. It is called by
// the goroutine that calls Receive.
func (c *Conn) Ping() {
	c.mu.Lock()
	c.pings = true
	c.mu.Unlock()
}

// Close writes what is queued, for at most [WriteTimeout], and closes the connection. It waits for the peer to do the same, for at most [LingerTimeout];
// what that sends meanwhile is discarded, or goes to a Receive that waits for it.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	late := time.AfterFunc(WriteTimeout, func() { c.end(ErrSlow) })
	defer late.Stop()
	c.writer.Wait()
	return nil
}

// linger tells the peer that no more comes, and reads until it has closed its end. A connection that is closed while something of the peer is unread
// is reset, and then the peer may lose what it was sent last: why it is closed.
func (c *Conn) linger() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	late := time.AfterFunc(LingerTimeout, func() { c.end(net.ErrClosed) })
	defer late.Stop()
	c.reading.Lock()
	defer c.reading.Unlock()
	c.over = true
	_ = c.conn.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, c.conn) // until its end, or that of c
}

// Abort closes the connection at once. Receive then returns err.
func (c *Conn) Abort(err error) {
	c.end(err)
	c.writer.Wait()
}

// Err returns why the connection has ended, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.ended }

// end closes the connection, once.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if err == nil {
		err = io.EOF
	}
	c.err = err
	close(c.ended)
	c.room.Broadcast()
	c.mu.Unlock()
	conn := c.conn
	if secure, ok := conn.(*tls.Conn); ok && !errors.Is(err, net.ErrClosed) {
		conn = secure.NetConn() // TLS would first tell a peer that does not read
	}
	_ = conn.Close()
}
