package egress

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestR66AddressesThatAreNotPublicAreDenied(t *testing.T) {
	for _, s := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "100.100.100.200", "127.0.0.1",
		"127.255.255.255", "168.63.129.16", "169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.1", "192.0.0.192",
		"192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.7",
		"203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.0", "255.255.255.254", "255.255.255.255",
		"::", "::1", "::7f00:1", "::127.0.0.1", "::8.8.8.8", "::ffff:0:7f00:1", "64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "2001::1",
		"2001:0:7f00:1::", "2001:2::1", "2001:10::1", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "fc00::1",
		"fd00:ec2::254", "fdff::1", "fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1", "ffff::1", "1::1", "1fff::1", "4000::1", "5f00::1",
	} {
		addr := netip.MustParseAddr(s)
		deny(t, addr)
		if addr.Is4() {
			deny(t, netip.AddrFrom16(addr.As16()))
		} else {
			deny(t, addr.WithZone("eth0"))
		}
	}
}

func TestR66ErrorsSayWhatAnAddressIsFor(t *testing.T) {
	for s, want := range map[string]string{
		"127.0.0.1": "loopback", "169.254.169.254": "link-local", "192.168.1.1": "private", "::1": "loopback", "::": "unspecified", "::ffff:0:7f00:1": "translated",
		"64:ff9b::1": "translated to IPv4, RFC 6052", "64:ff9b:1::1": "translated to IPv4, RFC 8215", "100::1": "discarded", "2001::1": "Teredo", "2001:2::1": "protocols",
		"fd00::1": "private", "fe80::1": "link-local", "fec0::1": "site-local", "ff02::1": "multicast", "4000::1": "not in use",
	} {
		err := New(Policy{}).control("tcp", net.JoinHostPort(s, "443"), nil)
		if !strings.Contains(errorText(err), "is not public ("+want) {
			t.Errorf("connect to %s: %v, want %s", s, err, want)
		}
	}
}

func TestR66AddressesBesideThoseAreAllowed(t *testing.T) {
	for _, s := range []string{
		"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "168.63.129.15", "169.253.255.255",
		"169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
		"198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "::ffff:8.8.8.8",
		"2000::1", "2001:200::1", "2001:4860:4860::8888", "2001:db7::1", "2001:db9::1", "2003::1", "2606:4700::1111", "3fff:1000::1",
	} {
		addr := netip.MustParseAddr(s)
		p := Policy{Hosts: []string{"*"}}
		if err := New(p).control("tcp", net.JoinHostPort(s, "443"), nil); err != nil {
			t.Errorf("connect to %s: %v", addr, err)
		}
		if _, err := p.Check("https://" + bracketed(addr) + "/"); err != nil {
			t.Errorf("Check of %s: %v", addr, err)
		}
	}
}

func TestR66NetworksAllowWhatIsNotPublic(t *testing.T) {
	c := New(Policy{Hosts: []string{"*"}, Networks: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/16"), netip.MustParsePrefix("fe80::/64")}})
	for s, want := range map[string]bool{"10.1.0.9": true, "::ffff:10.1.0.9": true, "10.2.0.9": false, "fe80::1": true, "fe80::1%eth0": true, "fe80:1::1": false} {
		err := c.control("tcp", net.JoinHostPort(s, "443"), nil)
		if (err == nil) != want || err != nil && !errors.Is(err, ErrDenied) {
			t.Errorf("connect to %s: %v, want it allowed: %v", s, err, want)
		}
	}
}

// deny checks that a URL with this address is denied, and a connection to it.
func deny(t *testing.T, addr netip.Addr) {
	t.Helper()
	p := Policy{Hosts: []string{"*", addr.String()}}
	if err := New(p).control("tcp", net.JoinHostPort(addr.String(), "443"), nil); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "allow its network if that is meant") {
		t.Errorf("connect to %s: %v, want %v", addr, err, ErrDenied)
	}
	if _, err := p.Check("https://" + strings.ReplaceAll(bracketed(addr), "%", "%25") + "/"); !errors.Is(err, ErrDenied) {
		t.Errorf("Check of %s: %v, want %v", addr, err, ErrDenied)
	}
}

func bracketed(addr netip.Addr) string {
	if addr.Is4() {
		return addr.String()
	}
	return "[" + addr.String() + "]"
}
