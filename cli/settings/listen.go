package settings

import (
	"fmt"
	"net"
	"strconv"
)

// CheckListen returns an error unless addr can be one to listen at. Name says where it was
// given, such as --addr, and example is in the error. A port may be the name of a service,
// which shows when it listens.
func CheckListen(name, addr, example string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		if n, bad := strconv.Atoi(port); bad == nil && 0 <= n && n <= 65535 || port == "" || 'a' <= port[0]|0x20 && port[0]|0x20 <= 'z' {
			return nil
		}
	}
	return fmt.Errorf("%s is %.60q: want HOST:PORT, such as %s", name, addr, example)
}
