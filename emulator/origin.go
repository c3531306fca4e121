package emulator

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

var crossOrigin = http.NewCrossOriginProtection()

// crossOriginReason returns why an HTTP request may come from a web page of another
// origin, or "". The server asks for no credentials, so any page that a person on
// this machine visits could empty a queue by a simple POST. Programs send no Origin.
// A page whose own name resolves to loopback (DNS rebinding) has an origin equal to
// its Host, but that is not a name of loopback.
func crossOriginReason(r *http.Request) string {
	unsafe := *r
	unsafe.Method = http.MethodPost // GET requests are checked too: they cost work
	if crossOrigin.Check(&unsafe) != nil {
		return "The request comes from a web page of another origin."
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local != nil && isLoopback(local.String()) && !isLocalName(r.Host) {
		return "The server is on loopback, and Host is another name: use localhost or an address."
	}
	return ""
}

func isLoopback(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// isLocalName reports whether the name in a Host header cannot be made to resolve
// to another address: localhost, names under it, addresses, and none at all, which
// no browser sends.
func isLocalName(host string) bool {
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
