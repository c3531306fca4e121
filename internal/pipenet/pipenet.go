// Package pipenet is a network for tests: its connections live in memory, so that their
// deadlines keep the time of a synctest bubble.
package pipenet

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// Listener accepts what Dial connects. Each connection seems to come from 127.0.0.1.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func Listen() *Listener {
	done := make(chan struct{})
	return &Listener{make(chan net.Conn), done, sync.OnceFunc(func() { close(done) })}
}

// Dial returns the caller's end of a connection once it is accepted. Network and address
// do not count. After Close it is refused.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- fromLoopback{theirs}:
		return ours, nil
	case <-l.done:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *Listener) Close() error   { l.close(); return nil }
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

type fromLoopback struct{ net.Conn }

func (fromLoopback) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
}
