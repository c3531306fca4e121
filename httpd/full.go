package httpd

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// fullListener calls full when as many of its connections are open as may be, at most once a
// minute: more wait until one closes.
type fullListener struct {
	net.Listener
	most int64
	full func()

	open atomic.Int64
	mu   sync.Mutex
	said time.Time
}

// Accept implements [net.Listener].
func (l *fullListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.open.Add(1) >= l.most && l.due(time.Now()) {
		l.full()
	}
	return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

func (l *fullListener) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.said.IsZero() && now.Sub(l.said) < time.Minute {
		return false
	}
	l.said = now
	return true
}

type countedConn struct {
	net.Conn
	closed func()
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
