// Package pipenet is a network in memory, for a server and its clients in one process.
package pipenet

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// Listener is a listener whose connections live in memory; in a test, their deadlines keep
// the time of a synctest bubble. Each seems to come from 127.0.0.1.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

// Listen returns a listener, to be closed after use.
func Listen() *Listener {
	done := make(chan struct{})
	return &Listener{make(chan net.Conn), done, sync.OnceFunc(func() { close(done) })}
}

// Dial returns the caller's end of a connection once it is accepted. Network and address
// do not count. After Close it is refused.
func (p *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- fromLoopback{theirs}:
		return ours, nil
	case <-p.done:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (p *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]; connections stay open.
func (p *Listener) Close() error { p.close(); return nil }

// Addr implements [net.Listener].
func (p *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

type fromLoopback struct{ net.Conn }

func (fromLoopback) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
}
