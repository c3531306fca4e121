package egress

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http/httptrace"
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
