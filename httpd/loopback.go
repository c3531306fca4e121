package httpd

import (
	"net"
	"net/http"
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

// OriginError is why a request may not be from a program on this machine. It is one of
// a few words, good for the label of a metric: "remote" (from another machine), "host"
// (for a name that is not loopback), "proxy", "cross_site" (from another site's page).
type OriginError string

func (e OriginError) Error() string {
	switch e {
	case "remote":
		return "it came from another machine"
	case "host":
		return "its Host is not this machine's loopback"
	case "proxy":
		return "it came through a proxy"
	default:
		return "it came from another site's page"
	}
}

// SameMachine returns nil for the request of a program on this machine, and for others
// an [OriginError]. A connection from loopback is not enough: a proxy on this machine
// may forward requests of others, and a browser may show other people's pages. It also
// checks Host, because anyone's DNS name may resolve to loopback.
func SameMachine(r *http.Request) error {
	switch {
	case !loopbackAddr(r.RemoteAddr):
		return OriginError("remote")
	case !loopbackHost(r.Host):
		return OriginError("host")
	case r.ProtoMajor == 1 && r.ProtoMinor == 0, proxied(r.Header):
		return OriginError("proxy")
	}
	return SameSite(r)
}

func loopbackAddr(s string) bool {
	peer, err := netip.ParseAddrPort(s)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return IsLoopback(host)
}

// proxied reports whether a header shows a proxy. A proxy that sets none cannot be told
// from a local caller; nginx without settings shows by HTTP/1.0, see [SameMachine].
func proxied(h http.Header) bool {
	for name := range h {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"),
			name == "Cf-Connecting-Ip", name == "True-Client-Ip", name == "X-Client-Ip", strings.HasPrefix(name, "X-Original-"):
			return true
		}
	}
	return false
}

var crossOrigin = http.NewCrossOriginProtection()

// SameSite returns an [OriginError] for a request that a page of another origin has
// sent, and nil for others. The standard library's check allows reads, since the page
// cannot see the response; but they can keep a server busy, and hold its connections.
func SameSite(r *http.Request) error {
	unsafe := *r
	unsafe.Method = http.MethodPost
	if crossOrigin.Check(&unsafe) != nil {
		return OriginError("cross_site")
	}
	return nil
}
