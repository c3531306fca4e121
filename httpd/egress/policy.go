package egress

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Policy says which addresses may be called. The zero Policy allows none.
type Policy struct {
	// Hosts are names ("hooks.example.com"), addresses ("192.0.2.7"), or all names below one ("*.example.com", at any
	// depth and without example.com itself). "*" is any name, and any address that is public or of Networks.
	Hosts []string
	// Networks are the addresses that are allowed although they are not public, such as those of a LAN. Hosts
	// must allow the host as well.
	Networks []netip.Prefix
	Ports    []uint16       // 443 when empty, and 80 if HTTP
	HTTP     bool           // http:// is allowed as well as https://
	CAs      *x509.CertPool // who signs certificates; the system's when nil
	Resolver *net.Resolver  // what asks DNS; the system's when nil
}

// Only returns a policy that allows the host and port of one URL, whatever address the name of the host has: for a URL that
// we have chosen.
func Only(u *url.URL) Policy {
	n, _ := strconv.ParseUint(port(u), 10, 16) // what is no port is 0, which allows nothing
	return Policy{
		Hosts: []string{u.Hostname()}, Ports: []uint16{uint16(n)}, HTTP: u.Scheme == "http",
		Networks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
	}
}

// ErrDenied means that a call was not made because it may not be made. To try again does not help.
var ErrDenied = errors.New("it may not be called")

// denied is an error whose text is its own, whatever it was found by.
type denied string

func (d denied) Error() string { return ErrDenied.Error() + ": " + string(d) }
func (denied) Unwrap() error   { return ErrDenied }

// MaxURL is the length of the longest URL, in bytes: those that S3 signs with the token of a session have some
// 2,000, and many servers refuse more than 8,000.
const MaxURL = 8192

// name is a host's name as DNS and certificates know it: labels of ASCII, the last one with a letter in it. Resolvers
// read names without one as addresses: 127.1, 2130706433, 0x7f.1. Names of other scripts begin with xn--.
var name = regexp.MustCompile(`^(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]*[a-z][a-z0-9_-]*$`)

// hex is how the last label of an address may be written, too.
var hex = regexp.MustCompile(`(?:^|\.)0x[0-9a-f]*$`)

const maxName = 253 // RFC 1035, 2.3.4

// canonical returns a host as it is compared: a name in lower case without its final dot, or an address. It
// returns "" for what is neither.
func canonical(host string) (string, netip.Addr) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", netip.Addr{}
		}
		return addr.Unmap().String(), addr.Unmap()
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if len(host) > maxName || !name.MatchString(host) || hex.MatchString(host) {
		return "", netip.Addr{}
	}
	return host, netip.Addr{}
}

// Validate returns all that is wrong with a Policy, and nil if nothing is. What is wrong allows nothing.
func (p *Policy) Validate() error {
	var all []error
	for _, h := range p.Hosts {
		below, wild := strings.CutPrefix(h, "*.")
		if known, addr := canonical(below); h != "*" && (known == "" || wild && addr.IsValid()) {
			all = append(all, fmt.Errorf("host %.100q: write a name (hooks.example.com, *.example.com), an address without a port (192.0.2.7), or * for any", h))
		}
	}
	for _, n := range p.Networks {
		if !n.IsValid() || n.Addr().Is4In6() {
			all = append(all, fmt.Errorf("network %s: write an address and the length of its prefix, such as 10.1.0.0/16 or fd00::/8", n))
		}
	}
	if slices.Contains(p.Ports, 0) {
		all = append(all, errors.New("port 0: write 1 to 65535"))
	}
	return errors.Join(all...)
}

// Check returns the URL that raw is if it may be called. Otherwise the error wraps [ErrDenied], and says what is wrong
// without repeating what may be a secret: anything but the host and the port. It asks no DNS: what address a name
// has is checked when it is called.
func (p *Policy) Check(raw string) (*url.URL, error) {
	switch {
	case len(raw) > MaxURL:
		return nil, denied(fmt.Sprintf("the URL has %d bytes, at most %d are allowed", len(raw), MaxURL))
	case strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, denied("the URL has a character that must be percent-encoded")
	case strings.Contains(raw, "#"):
		return nil, denied("the URL must not have a fragment (#…)")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil: // its text has the URL
		return nil, denied("it is not a URL: write https://host/path")
	case p.HTTP && u.Scheme != "https" && u.Scheme != "http":
		return nil, denied("the URL must begin with https:// or http://")
	case !p.HTTP && u.Scheme != "https":
		return nil, denied("the URL must begin with https://")
	case u.User != nil:
		return nil, denied("the URL must not have a user or a password")
	case u.Hostname() == "":
		return nil, denied("the URL has no host: write https://host/path")
	}
	host, addr := canonical(u.Hostname())
	if host == "" {
		return nil, denied("its host is neither a name nor an address: write a name in ASCII (other scripts as xn--…), or an address like 192.0.2.7 or [2001:db8::7]")
	}
	if !p.allowsHost(host) {
		return nil, denied("host " + host + " is not in the list of hosts that are allowed")
	}
	if err := p.checkPort(u); err != nil {
		return nil, err
	}
	if addr.IsValid() {
		if err := p.checkAddr(addr); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// allowsHost takes a host that is canonical.
func (p *Policy) allowsHost(host string) bool {
	return slices.ContainsFunc(p.Hosts, func(h string) bool {
		if below, ok := strings.CutPrefix(h, "*."); ok {
			below, _ = canonical(below) // "" of what is wrong, and no host ends in a dot
			return strings.HasSuffix(host, "."+below)
		}
		known, _ := canonical(h)
		return h == "*" || known == host
	})
}

func (p *Policy) checkPort(u *url.URL) error {
	ports := p.Ports
	if len(ports) == 0 {
		if ports = []uint16{443}; p.HTTP {
			ports = append(ports, 80)
		}
	}
	own := port(u)
	if !slices.ContainsFunc(ports, func(n uint16) bool { return n != 0 && strconv.Itoa(int(n)) == own }) {
		return denied(fmt.Sprintf("port %.10s is not one that is allowed: %v", own, ports))
	}
	return nil
}

func port(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// checkAddr is for the address that a host is, or that a connection is about to be made to.
func (p *Policy) checkAddr(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	purpose := specialPurpose(addr)
	if purpose == "" || slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Contains(addr) }) {
		return nil
	}
	return denied("the address of its host is not public (" + purpose + "): allow its network if that is meant")
}
