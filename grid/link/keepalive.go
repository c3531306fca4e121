package link

import (
	"crypto/tls"
	"net"
	"time"
)

// keepAlive lets the kernel find out that a peer has gone, also one that answers no pings.
func keepAlive(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return // a pipe, in a test
	}
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3})
	setUserTimeout(c, SilenceLimit)
}
