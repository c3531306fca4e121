package emulator

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// preface begins every HTTP/2 connection, and no HTTP/1 request (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0"

// prefaceWait is how long a connection may take to send its first bytes.
const prefaceWait = 30 * time.Second

// A connListener is a net.Listener that accepts the connections passed to put.
type connListener struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newConnListener(addr net.Addr) *connListener {
	return &connListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// put passes conn to a call of Accept, and reports whether one took it.
func (h *connListener) put(conn net.Conn) bool {
	select {
	case h.conns <- conn:
		return true
	case <-h.closed:
		return false
	}
}

// Accept implements net.Listener.
func (h *connListener) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *connListener) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *connListener) Addr() net.Addr { return h.addr }

// A readConn is a connection whose first bytes have been read already.
type readConn struct {
	net.Conn
	read []byte
}

// Read implements net.Conn.
func (c *readConn) Read(p []byte) (int, error) {
	if len(c.read) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.read)
	c.read = c.read[n:]
	return n, nil
}

// recognize reads just enough of conn to tell HTTP/2 from HTTP/1 and returns a
// connection that still has those bytes.
func recognize(conn net.Conn) (_ net.Conn, http2 bool, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(prefaceWait)); err != nil {
		return nil, false, err
	}
	first := make([]byte, 0, len(preface))
	for len(first) < len(preface) && string(first) == preface[:len(first)] {
		n, err := conn.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
			return nil, false, err
		}
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, false, err
	}
	return &readConn{conn, first}, string(first) == preface, nil
}
