// Package testnet listens for tests: in memory or on loopback.
package testnet

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// Pipes is a listener whose connections live in memory, so that their deadlines keep the
// time of a synctest bubble. Each seems to come from 127.0.0.1.
type Pipes struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func NewPipes() *Pipes {
	done := make(chan struct{})
	return &Pipes{make(chan net.Conn), done, sync.OnceFunc(func() { close(done) })}
}

// Dial returns the caller's end of a connection once it is accepted. Network and address
// do not count. After Close it is refused.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
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

func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *Pipes) Close() error   { p.close(); return nil }
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

type fromLoopback struct{ net.Conn }

func (fromLoopback) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
}
