package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// counted is a connection that counts its bytes.
type counted struct {
	net.Conn
	bytes atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// How much of a body is read and written at once, in bytes: more as long as the connection takes it quickly. 5 GiB took 2.1 s of
// processor time with the 32 KiB of io.Copy, and 1.4 s so. Of a write that lasts, nothing is counted before its end.
const (
	leastCopy = 32 << 10
	mostCopy  = 1 << 20
	quickly   = 50 * time.Millisecond
)

var copyBuffers = sync.Pool{New: func() any { return new([mostCopy]byte) }}

// ReadFrom implements io.ReaderFrom, which net/http uses for the body of a request.
func (c *counted) ReadFrom(r io.Reader) (n int64, err error) {
	buf := copyBuffers.Get().(*[mostCopy]byte) //nolint:forcetypeassert // New makes no others
	defer copyBuffers.Put(buf)
	for size := leastCopy; ; {
		read, readErr := r.Read(buf[:size])
		began := time.Now()
		wrote, err := c.Write(buf[:read])
		n += int64(wrote)
		switch {
		case err != nil:
			return n, err
		case errors.Is(readErr, io.EOF):
			return n, nil
		case readErr != nil:
			return n, readErr
		case time.Since(began) < quickly:
			size = min(2*size, mostCopy)
		default:
			size = leastCopy
		}
	}
}

// moved returns a number that grows when bytes move. Beside what was read and written it counts what has arrived: on
// a slow line minutes can pass in which the kernel still sends what it was given.
func (c *counted) moved() int64 { return c.bytes.Load() + arrived(c.Conn) }

// watch watches the connection of a call.
type watch struct{ conn atomic.Pointer[counted] }

func (w *watch) got(info httptrace.GotConnInfo) {
	conn := info.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if c, ok := conn.(*counted); ok {
		w.conn.Store(c)
	}
}

// looks is how often a watch looks in the time of a stall. It counts looks and no time, so that a machine that was
// asleep has not stalled.
const looks = 8

// run ends the call when nothing has moved for so long, until ctx ends.
func (w *watch) run(ctx context.Context, stall time.Duration, giveUp context.CancelCauseFunc) {
	tick := time.NewTicker(max(stall/looks, 1))
	defer tick.Stop()
	last, same := int64(-1), 0
	for {
		moved := int64(0)
		if c := w.conn.Load(); c != nil {
			moved = c.moved()
		}
		if moved != last {
			last, same = moved, 0
		} else if same++; same == looks {
			giveUp(slow(fmt.Sprintf("no byte was sent or received for %s", stall)))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
