package pipenet

import (
	"net"
	"sync"
	"time"
)

// Roomy returns c with room for what is written to it, as a connection over TCP has. Without, two ends of a pipe
// that both write before they read wait for each other. What cannot be delivered is lost, and the reader finds out.
func Roomy(c net.Conn) net.Conn {
	r := &roomy{Conn: c, wake: make(chan struct{}, 1), done: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.done) })
	go r.deliver()
	return r
}

type roomy struct {
	net.Conn
	wake, done chan struct{}
	end        func()

	mu      sync.Mutex
	waiting []byte
}

// Write implements [net.Conn]. It never waits.
func (r *roomy) Write(p []byte) (int, error) {
	select {
	case <-r.done:
		return 0, net.ErrClosed
	default:
	}
	r.mu.Lock()
	r.waiting = append(r.waiting, p...)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (r *roomy) deliver() {
	for {
		select {
		case <-r.wake:
		case <-r.done:
			return
		}
		r.mu.Lock()
		p := r.waiting
		r.waiting = nil
		r.mu.Unlock()
		if _, err := r.Conn.Write(p); err != nil {
			r.end()
			return
		}
	}
}

// SetDeadline implements [net.Conn]. A write has none.
func (r *roomy) SetDeadline(t time.Time) error { return r.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (*roomy) SetWriteDeadline(time.Time) error { return nil }

// Close implements [net.Conn].
func (r *roomy) Close() error {
	r.end()
	return r.Conn.Close()
}
