package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestR65URLsThatMayBeCalled(t *testing.T) {
	hooks := &Policy{Hosts: []string{"Hooks.Example.com.", "*.wild.example", "xn--bcher-kva.example", "8.8.8.8", "2606:4700::1111", "my_service"}}
	plain := &Policy{Hosts: hooks.Hosts, HTTP: true}
	ports := &Policy{Hosts: hooks.Hosts, Ports: []uint16{8443}}
	for _, tt := range []struct {
		policy *Policy
		raw    string
	}{
		{hooks, "https://hooks.example.com"},
		{hooks, "HTTPS://HOOKS.example.COM/a%0d%0ab?c=%00"},
		{hooks, "https://hooks.example.com./"},
		{hooks, "https://hooks.example.com:443/"},
		{hooks, "https://hooks.example.com:/"},
		{hooks, "https://a.wild.example/"},
		{hooks, "https://a.b.wild.example/@evil.example:1/"},
		{hooks, "https://xn--bcher-kva.example/"},
		{hooks, "https://8.8.8.8/"},
		{hooks, "https://[::ffff:8.8.8.8]/"},
		{hooks, "https://[2606:4700:0::1111]/"},
		{hooks, "https://my_service"},
		{hooks, "https://hooks.example.com?" + strings.Repeat("a", MaxURL-len("https://hooks.example.com?"))},
		{plain, "http://hooks.example.com/"},
		{plain, "http://hooks.example.com:80/"},
		{plain, "https://hooks.example.com/"},
		{ports, "https://hooks.example.com:8443/"},
		{&Policy{Hosts: []string{"*"}}, "https://any.example/"},
	} {
		if _, err := tt.policy.Check(tt.raw); err != nil {
			t.Errorf("Check(%q): %v", tt.raw, err)
		}
	}
}

func TestR65URLsThatAreRefused(t *testing.T) {
	list := Policy{Hosts: []string{"good.example", "*.wild.example"}}
	// The worst that a policy can allow: all names, all networks, and addresses as some resolvers read them.
	wide := Policy{
		Hosts:    []string{"*", "127.1", "2130706433", "0x7f000001", "0x7f.1", "*.1", "fe80::1%eth0", "bücher.example", "good.example:443"},
		Networks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, HTTP: true,
	}
	for _, tt := range []struct {
		policy    Policy
		raw, want string
	}{
		{Policy{}, "https://good.example/", "is not in the list"},
		{list, "https://evil.example/", "host evil.example is not in the list"},
		{list, "https://good.example.evil.example/", "is not in the list"},
		{list, "https://evilgood.example/", "is not in the list"},
		{list, "https://wild.example/", "is not in the list"},
		{list, "https://evilwild.example/", "is not in the list"},
		{list, "https://8.8.8.8/", "is not in the list"},
		{list, "http://good.example/", "must begin with https://"},
		{list, "https://good.example:80/", "port 80 is not one that is allowed: [443]"},
		{list, "https://good.example:0443/", "port 0443"},
		{list, "https://good.example:99999999999999/", "port 9999999999 is"},
		{Policy{Hosts: list.Hosts, Ports: []uint16{8443}}, "https://good.example/", "port 443"},
		{Policy{Hosts: list.Hosts, Ports: []uint16{0}}, "https://good.example:0/", "port 0 "},

		{wide, "", "must begin with https://"},
		{wide, "good.example", "must begin with https://"},
		{wide, "//good.example/", "must begin with https://"},
		{wide, "ftp://good.example/", "must begin with https://"},
		{wide, "file:///etc/passwd", "must begin with https://"},
		{wide, "gopher://good.example/", "must begin with https://"},
		{wide, "javascript:alert(1)", "must begin with https://"},
		{wide, "https:good.example/", "has no host"},
		{wide, "https:///good.example/", "has no host"},
		{wide, "https://", "has no host"},
		{wide, "https://:443/", "has no host"},
		{wide, "https://./", "neither a name nor an address"},
		{wide, "https://a..example/", "neither a name nor an address"},
		{wide, "https://good.example../", "neither a name nor an address"},
		{wide, "https://-.example,evil.example/", "neither a name nor an address"},
		{wide, "https://" + strings.Repeat("a.", 127) + "ab/", "neither a name nor an address"},
		{wide, "https://" + strings.Repeat("a", 64) + ".example/", "neither a name nor an address"},

		{wide, "https://2130706433/", "neither a name nor an address"},
		{wide, "https://017700000001/", "neither a name nor an address"},
		{wide, "https://0x7f000001/", "neither a name nor an address"},
		{wide, "https://0X7F.1/", "neither a name nor an address"},
		{wide, "https://127.0.0x1/", "neither a name nor an address"},
		{wide, "https://0x/", "neither a name nor an address"},
		{wide, "https://127.1/", "neither a name nor an address"},
		{wide, "https://127.0.1/", "neither a name nor an address"},
		{wide, "https://127.1./", "neither a name nor an address"},
		{wide, "https://127.0.0.1./", "neither a name nor an address"},
		{wide, "https://0177.0.0.1/", "neither a name nor an address"},
		{wide, "https://127.0.0.01/", "neither a name nor an address"},
		{wide, "https://127.0.0.256/", "neither a name nor an address"},
		{wide, "https://1.1.1.1.1/", "neither a name nor an address"},
		{wide, "https://[fe80::1%25eth0]/", "neither a name nor an address"},
		{wide, "https://[::ffff:127.0.0.1%25lo]/", "neither a name nor an address"},
		{wide, "https://[127.0.0.1]/", "is not a URL"},
		{wide, "https://[::1", "is not a URL"},
		{wide, "https://::1/", "is not a URL"},

		{wide, "https://user@good.example/", "user or a password"},
		{wide, "https://good.example@evil.example/", "user or a password"},
		{wide, "https://good.example:443@evil.example/", "user or a password"},
		{wide, "https://@good.example/", "user or a password"},
		{wide, `https://good.example\@evil.example/`, "is not a URL"},
		{wide, `https://good.example\.evil.example/`, "is not a URL"},
		{wide, "https://good.example#@evil.example/", "fragment"},
		{wide, "https://good.example/#", "fragment"},
		{wide, "https://%67ood.example/", "is not a URL"},
		{wide, "https://good.example%2f@evil.example/", "user or a password"},
		{wide, "https://good.example%00.evil.example/", "is not a URL"},
		{wide, "https://b%C3%BCcher.example/", "neither a name nor an address"},
		{wide, "https://bücher.example/", "percent-encoded"},
		{wide, "https://good。example/", "percent-encoded"},
		{wide, "https://①②⑦.⓪.⓪.①/", "percent-encoded"},
		{wide, " https://good.example/", "percent-encoded"},
		{wide, "https://good.example/a b", "percent-encoded"},
		{wide, "https://good.example/?a b", "percent-encoded"},
		{wide, "https://good.example/\r\nX-Evil: 1", "percent-encoded"},
		{wide, "https://good.example/\x00", "percent-encoded"},
		{wide, "https://good.example/\x7f", "percent-encoded"},
		{wide, "https://good.example/\xff", "percent-encoded"},
		{wide, "https://good.example/%zz", "is not a URL"},
		{wide, "https://good.example:port/", "is not a URL"},
		{wide, "https://good.example:443:443/", "is not a URL"},
		{wide, "https://good.example/" + strings.Repeat("a", MaxURL), "at most 8192"},
	} {
		u, err := tt.policy.Check(tt.raw)
		if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check(%.100q) = %v, %v; want %q", tt.raw, u, err, tt.want)
		}
	}
}

func TestPolicyIsValidated(t *testing.T) {
	good := Policy{
		Hosts: []string{"*", "a.example", "*.A.example.", "10.0.0.1", "fd00::1"}, Ports: []uint16{1, 65535},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8"), netip.MustParsePrefix("fd00::/8")},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := Policy{
		Hosts: []string{"", "*.", "*.*", "a.*", "*a.example", "*.10.0.0.1", "a.example:443", "https://a.example", "[fd00::1]", "127.1", "fe80::1%eth0"},
		Ports: []uint16{0}, Networks: []netip.Prefix{{}, netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), 104)},
	}
	err := bad.Validate()
	if lines := strings.Split(errorText(err), "\n"); len(lines) != len(bad.Hosts)+len(bad.Ports)+len(bad.Networks) {
		t.Errorf("%d mistakes are reported: %v", len(lines), err)
	}
}

// FuzzCheck looks for URLs that are checked as one host and called as another.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		"https://good.example/", "https://a.wild.example:8443/?a=b", "http://8.8.8.8:80/", "https://[::ffff:8.8.8.8]:/", "https://good.example@evil.example/",
		`https://good.example\@evil.example`, "https://[2606:4700::1111]/", "https://%67ood.example/", "https://GOOD.example.:443/a", "http://good.example:443", "https://127.1/",
		"https://[fe80::1%25eth0]/", "https:good.example", "https://good.example/\r\nHost: evil", "http://bücher.example/",
	} {
		f.Add(s)
	}
	p := Policy{Hosts: []string{"good.example", "*.wild.example", "8.8.8.8", "2606:4700::1111"}, Ports: []uint16{80, 443, 8443}, HTTP: true}
	c := New(p)
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, raw string) {
		const canary = "canaryQ7"
		for _, leaky := range []string{raw + "?sig=" + canary, "https://" + canary + "@" + raw, "https://good.example:444/" + canary + raw} {
			if _, err := p.Check(leaky); strings.Contains(errorText(err), canary) {
				t.Errorf("Check(%q) shows a secret: %v", leaky, err)
			}
		}
		dialed := make(chan string, 1)
		c.dial = func(_ context.Context, _, address string) (net.Conn, error) {
			dialed <- address
			return nil, errors.New("enough")
		}
		u, err := p.Check(raw)
		if _, doErr := c.Do(t.Context(), &Request{URL: raw}); (err != nil) != errors.Is(doErr, ErrDenied) {
			t.Fatalf("Check(%q): %v, Do: %v", raw, err, doErr)
		}
		if err != nil {
			if len(dialed) > 0 {
				t.Fatalf("%q was refused and %s called", raw, <-dialed)
			}
			return
		}
		address := <-dialed
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatalf("%q calls %q: %v", raw, address, err)
		}
		if want := u.Port(); port != "80" && port != "443" && port != "8443" || want != "" && port != want {
			t.Errorf("%q calls port %s, want %s", raw, port, want)
		}
		if !strings.EqualFold(host, u.Hostname()) {
			t.Errorf("%q calls %q, which is not the host %q of its URL", raw, host, u.Hostname())
		}
		// Not by the functions that Check has decided with.
		host = strings.TrimSuffix(strings.ToLower(host), ".")
		if ip := net.ParseIP(host); ip != nil {
			host = ip.String() // of a mapped address, that of IPv4
		}
		if !slices.Contains(p.Hosts, host) && !strings.HasSuffix(host, ".wild.example") {
			t.Errorf("%q calls %q, which is not allowed", raw, address)
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestR65OnlyOneServerIsAllowed(t *testing.T) {
	for raw, calls := range map[string]map[string]bool{
		"https://orchestrator.test/base": {"https://orchestrator.test/x": true, "https://orchestrator.test:443/": true, "https://orchestrator.test:8443/": false, "https://other.test/": false, "http://orchestrator.test/": false},
		"http://10.0.0.7:9000":           {"http://10.0.0.7:9000/x": true, "http://10.0.0.7/": false, "http://10.0.0.8:9000/": false},
		"http://[::1]:9000":              {"http://[::1]:9000/": true, "http://127.0.0.1:9000/": false},
		"https://orchestrator.test:0":    {"https://orchestrator.test:0/": false, "https://orchestrator.test/": false},
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		p := Only(u)
		for call, want := range calls {
			if _, err := p.Check(call); (err == nil) != want {
				t.Errorf("with %s alone, %s: %v", raw, call, err)
			}
		}
	}
}
