package httpd

import (
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host, without a port, is this machine by its name
// or address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
