// Package door accepts the connections of the grid's peers, within limits, and answers peers and jobs that are refused.
package door

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// Door accepts connections, within limits over all listeners together. Its methods may be called concurrently.
type Door struct {
	MaxConns int // connections at once
	MaxPerIP int // connections at once of one address
	Log      *slog.Logger

	mu     sync.Mutex
	closed bool
	conns  int
	perIP  map[string]int
}

// Serve accepts connections until ctx ends or the listener fails, and closes the listener. It calls handle for each connection in a goroutine of
// readers, which it does not wait for; handle must close the connection. The error is that of the listener.
func (d *Door) Serve(ctx context.Context, listener net.Listener, readers *sync.WaitGroup, handle func(net.Conn)) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	defer listener.Close()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() || isOutOfFiles(err) {
				d.Log.WarnContext(ctx, "cannot accept a connection", "err", err)
				time.Sleep(50 * time.Millisecond) // connections that end meanwhile free a file
				continue
			}
			return fmt.Errorf("accept connections: %w", err)
		}
		ip := addressOf(conn)
		if err := d.admit(ip); err != nil {
			d.Log.WarnContext(ctx, "a connection was refused", "remote", conn.RemoteAddr().String(), "err", err)
			conn.Close()
			continue
		}
		readers.Go(func() {
			defer d.leave(ip)
			handle(conn)
		})
	}
}

func (d *Door) admit(ip string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return net.ErrClosed
	case d.conns >= d.MaxConns:
		return fmt.Errorf("there are %d connections, at most %d", d.conns, d.MaxConns)
	case d.perIP[ip] >= d.MaxPerIP:
		return fmt.Errorf("there are %d connections from %s, at most %d", d.perIP[ip], ip, d.MaxPerIP)
	}
	if d.perIP == nil {
		d.perIP = map[string]int{}
	}
	d.conns++
	d.perIP[ip]++
	return nil
}

// Close refuses further connections. Open ones stay.
func (d *Door) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// Conns returns how many connections are open.
func (d *Door) Conns() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns
}

func (d *Door) leave(ip string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns--
	if d.perIP[ip]--; d.perIP[ip] <= 0 {
		delete(d.perIP, ip)
	}
}

func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	return cmp.Or(host, fmt.Sprint(err))
}

func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}
