package egress

import (
	"net"

	"golang.org/x/sys/unix"
)

// arrived returns how many bytes the other end has acknowledged, 0 if that cannot be known.
func arrived(c net.Conn) (n int64) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // a closed connection has no number any more
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(info.Bytes_acked)
		}
	})
	return n
}
