package relay

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/httpd"
)

// TokenHeader carries the shared token, both ways.
const TokenHeader = "X-Relay-Token"

// minToken is the shortest token, in bytes: too long to guess over the network.
const minToken = 32

// Access says who may ask.
type Access struct {
	Tokens  []string       // that are accepted, see [Relay.RenewTokens]
	Allowed []netip.Prefix // where callers may come from
	Proxies []netip.Prefix // whose X-Forwarded-For is believed
}

// DefaultAllowed are this machine and private networks.
var DefaultAllowed = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
}

// Check returns what is wrong with the settings.
func (a *Access) Check() error { return checkTokens(a.Tokens) }

func checkTokens(tokens []string) error {
	if len(tokens) == 0 {
		return errors.New("there is no token")
	}
	for _, token := range tokens {
		if len(token) < minToken || len(token) > 512 || !httpd.TokenChars(token) {
			return fmt.Errorf("a token must have %d to 512 letters, digits or ._~+/=-, as from: openssl rand -hex 32", minToken)
		}
	}
	return nil
}

// admit refuses a request that may not be made: first by where it comes from, then by its token. The body is
// not read, and nothing tells whether what it asks for is there.
func (r *Relay) admit(req *http.Request) error {
	if !r.Access.allows(req) {
		return &refusal{http.StatusForbidden, "FORBIDDEN_IP", "The address of the caller is not allowed here"}
	}
	if req.URL.Path == healthPath {
		return nil
	}
	if values := req.Header.Values(TokenHeader); len(values) != 1 || !r.Accepts(values[0]) {
		return &refusal{http.StatusUnauthorized, "UNAUTHORIZED", "Want one header " + TokenHeader + " with the token of this relay"}
	}
	return nil
}

// Accepts reports whether a token is one of those that are accepted now.
func (r *Relay) Accepts(token string) (known bool) {
	for _, one := range *r.tokens.Load() { // all of them, so that the time does not tell which one it was
		known = httpd.SameToken(one, token) || known
	}
	return known && token != ""
}

// RenewTokens replaces the tokens that are accepted. The first one is the present one, which is sent to the orchestrator; the others
// are to follow it.
func (r *Relay) RenewTokens(tokens []string) error {
	err := checkTokens(tokens)
	if err == nil {
		r.tokens.Store(&tokens)
	}
	return err
}

// token is the present one.
func (r *Relay) token() string { return (*r.tokens.Load())[0] }

// AdmitAddress refuses a request from where none may come, whatever its token: for other routes at the same address.
func (a *Access) AdmitAddress(r *http.Request) error {
	if !a.allows(r) {
		return &httpd.StatusError{Status: http.StatusForbidden, Err: errors.New("the address of the caller is not allowed here")}
	}
	return nil
}

func (a *Access) allows(r *http.Request) bool {
	ip, err := a.caller(r)
	return err == nil && contains(a.Allowed, ip)
}

// caller returns where a request comes from: the peer, or, behind proxies that are trusted, the last address that
// none of them has.
func (a *Access) caller(r *http.Request) (netip.Addr, error) {
	ip, err := peer(r.RemoteAddr)
	if err != nil || !contains(a.Proxies, ip) {
		return ip, err
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if ip, err = netip.ParseAddr(strings.TrimSpace(hop)); err != nil {
			return ip, err
		}
		if ip = ip.Unmap().WithZone(""); !contains(a.Proxies, ip) {
			return ip, nil
		}
	}
	return ip, nil
}

func peer(addr string) (netip.Addr, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.Addr{}, err
	}
	ip, err := netip.ParseAddr(host)
	return ip.Unmap().WithZone(""), err
}

func contains(networks []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}
