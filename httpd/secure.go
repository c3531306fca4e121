package httpd

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

var errInsecure = errors.New("HTTPS only: plain HTTP is for loopback and trusted proxies that say X-Forwarded-Proto: https")

// SecureOnly returns an [API.Admit] that refuses with 403 what may have been sent
// unencrypted. A request is secure when it came by TLS, from a peer on loopback, or
// from a trusted proxy with X-Forwarded-Proto: https. A request from loopback
// whose header names anything else is refused, too. The header of other peers is
// ignored.
func SecureOnly(trusted []netip.Prefix) func(*http.Request) error {
	return func(r *http.Request) error {
		if r.TLS != nil {
			return nil
		}
		said, https := forwardedProto(r.Header)
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		addr := peer.Addr().Unmap().WithZone("")
		switch {
		case err != nil: // no IP address
		case addr.IsLoopback() && (!said || https):
			return nil
		case https && slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) }):
			return nil
		}
		return closing(http.StatusForbidden, errInsecure)
	}
}

// forwardedProto reports whether there is an X-Forwarded-Proto, and whether
// every hop in it says https: proxies append, so a client can write the first.
func forwardedProto(h http.Header) (said, https bool) {
	values := h.Values("X-Forwarded-Proto")
	for _, v := range values {
		for hop := range strings.SplitSeq(v, ",") {
			if !strings.EqualFold(strings.TrimSpace(hop), "https") {
				return true, false
			}
		}
	}
	return len(values) > 0, len(values) > 0
}
