package jobapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi/access"
)

// Loopback lets in everybody on the same machine, to do everything, and asks for
// no token. A connection from loopback is not enough for that: a proxy on this
// machine brings strangers, and a browser other people's pages. A name that leads
// to loopback may be anybody's, too, which is why Host is looked at.
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

// proxied reports whether a proxy has left its mark. One that leaves none cannot be
// told from a caller here; nginx without settings leaves its HTTP/1.0, see above.
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

// crossSite reports whether a page of another origin is behind the request. The
// standard library's check lets reads pass, since a page cannot see what it gets;
// but it can make a server work, and hold its connections.
func crossSite(r *http.Request) bool {
	unsafe := *r
	unsafe.Method = http.MethodPost
	return crossOrigin.Check(&unsafe) != nil
}
