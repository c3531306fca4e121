package emulator

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

var crossOrigin = http.NewCrossOriginProtection()

// foreign returns why an HTTP request may come from a web page that is none of
// this server's, or "". The server asks nobody for credentials, so any page that
// a person on this machine visits could empty a queue by a simple POST. Programs
// send no Origin. A page that got its own name to lead to loopback has an origin
// equal to its Host, but that is not a name of loopback.
func foreign(r *http.Request) string {
	unsafe := *r
	unsafe.Method = http.MethodPost // also what only reads makes the server work
	if crossOrigin.Check(&unsafe) != nil {
		return "The request comes from a web page of another origin."
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local != nil && isLoopback(local.String()) && !ownName(r.Host) {
		return "The server is on loopback, and Host is another name: use localhost or an address."
	}
	return ""
}

func isLoopback(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// ownName reports whether no one can make the name in a Host header lead where
// they want: localhost, names under it, addresses, and none at all, which no
// browser sends.
func ownName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}
