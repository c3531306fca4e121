package jobapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// Loopback allows callers on the same machine everything, without a token. A
// connection from loopback is not enough: a proxy on this machine may forward requests
// of others, and a browser may show other people's pages. It also checks Host, because
// anyone's DNS name may resolve to loopback.
var Loopback = &Guard{judge: func(r *http.Request, _ access.Scope) (string, error) {
	switch {
	case !loopbackAddr(r.RemoteAddr):
		return "", local("remote", "it came from another machine")
	case !loopbackHost(r.Host):
		return "", local("host", "its Host is not this machine's loopback")
	case r.ProtoMajor == 1 && r.ProtoMinor == 0, proxied(r.Header):
		return "", local("proxy", "it came through a proxy")
	case crossSite(r):
		return "", local("cross_site", "it came from another site's page")
	}
	return "loopback", nil
}}

func local(why, what string) error {
	return denied(why, http.StatusForbidden, "Without tokens the Job API is open only to callers on the same machine, and of this request one cannot say so: "+what)
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
	return httpd.IsLoopback(host)
}

// proxied reports whether a header shows a proxy. A proxy that sets none cannot be told
// from a local caller; nginx without settings shows by HTTP/1.0, see above.
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

// crossSite reports whether a page of another origin has sent the request. The
// standard library's check allows reads, since the page cannot see the response; but
// they can keep a server busy, and hold its connections.
func crossSite(r *http.Request) bool {
	unsafe := *r
	unsafe.Method = http.MethodPost
	return crossOrigin.Check(&unsafe) != nil
}
