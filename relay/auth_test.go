package relay

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/internal/testrun"
)

// untouched fails the test when a body is read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// serve answers one request without a connection, from an address.
func (r *rig) serve(from, method, path string, body io.Reader, header http.Header) response {
	req := httptest.NewRequestWithContext(r.t.Context(), method, path, body)
	req.RemoteAddr, req.Header = from, header
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, req)
	return response{w.Code, w.Header(), w.Body.String()}
}

func TestR01EveryRequestNeedsTheTokenOnce(t *testing.T) {
	r := newRig(t)
	id := r.create("")
	routes := []string{
		"POST /v1/tasks", "GET /v1/tasks", "GET /v1/tasks/" + string(id), "GET /v1/tasks/unknown", "GET /v1/tasks/" + string(id) + "/artifacts/a",
		"POST /v1/tasks/" + string(id) + "/callback", "POST /v1/tasks/" + string(id) + "/cancel", "POST /v1/tasks/" + string(id) + "/retry-upload",
		"GET /v1/status", "POST /v1/gc", "GET /nothing", "DELETE /v1/tasks", "GET /healthz/", "GET /v1/../healthz", "GET //healthz", "OPTIONS /v1/tasks",
	}
	for name, tokens := range map[string][]string{
		"none": nil, "empty": {""}, "wrong": {strings.Repeat("x", len(testToken))}, "cut": {testToken[:len(testToken)-1]}, "longer": {testToken + "x"},
		"in quotes": {`"` + testToken + `"`}, "bearer": {"Bearer " + testToken}, "two": {testToken, testToken}, "right and wrong": {testToken, "x"},
		"two in one": {testToken + ", " + testToken}, "very long": {strings.Repeat(testToken, 2000)}, "other case": {strings.ToUpper(testToken)},
	} {
		first := ""
		for _, route := range routes {
			method, path, _ := strings.Cut(route, " ")
			resp := r.serve("127.0.0.1:1", method, path, untouched{t}, http.Header{TokenHeader: tokens, "Content-Type": {"application/json"}})
			if first == "" {
				first = resp.Body
			}
			if resp.Status != http.StatusUnauthorized || resp.code() != "UNAUTHORIZED" || resp.Body != first {
				t.Errorf("token %s, %s: %d %s", name, route, resp.Status, resp.Body)
			}
		}
	}
	if strings.Contains(r.log.String(), testToken[:20]) {
		t.Errorf("the log has a token: %s", r.log)
	}
	if task := r.task(id); task.State != Queued {
		t.Errorf("the task is %s", task.State)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if resp := r.serve("127.0.0.1:1", method, "/healthz", untouched{t}, nil); resp.Status != http.StatusOK || resp.Body != "" {
			t.Errorf("%s /healthz: %d %s", method, resp.Status, resp.Body)
		}
	}
	if resp := r.callAs("", http.MethodGet, "/v1/status", ""); resp.code() != "UNAUTHORIZED" {
		t.Errorf("over the network: %d %s", resp.Status, resp.Body)
	}
}

func TestR02SeveralTokensAreAcceptedAndNoneThatCanBeGuessed(t *testing.T) {
	r := newRig(t)
	for _, token := range []string{testToken, nextToken} {
		if resp := r.callAs(token, http.MethodGet, "/v1/status", ""); resp.Status != http.StatusOK {
			t.Errorf("%.8s…: %d %s", token, resp.Status, resp.Body)
		}
	}
	for name, tokens := range map[string][]string{
		"none": nil, "empty": {""}, "of 31 bytes": {strings.Repeat("a", 31)}, "a good one and an empty one": {testToken, ""},
		"with a blank": {testToken + " x"}, "with a line end": {testToken + "\n"}, "of 513 bytes": {strings.Repeat("a", 513)}, "not ASCII": {testToken + "é"},
	} {
		r := setup(t, testrun.MemoryDir(t))
		r.Access.Tokens = tokens
		err := r.Open(t.Context())
		if err == nil {
			r.open()
			t.Errorf("token %s: the relay has started", name)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("token %s: %v", name, err)
		}
	}
	if err := (&Access{Tokens: []string{strings.Repeat("a", 32)}}).Check(); err != nil {
		t.Errorf("of 32 bytes: %v", err)
	}
}

func TestR03OnlyAllowedAddressesMayAsk(t *testing.T) {
	r := newRig(t)
	behind := newRig(t)
	behind.Access.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")}
	behind.Access.Allowed = append([]netip.Prefix{netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("2001:db8::7/128")}, DefaultAllowed...)
	tests := []forwardedTest{
		{"this machine", "127.0.0.1:5", nil, true},
		{"this machine, IPv6", "[::1]:5", nil, true},
		{"this machine, mapped", "[::ffff:127.0.0.1]:5", nil, true},
		{"private", "192.168.3.4:5", nil, true},
		{"private, mapped", "[::ffff:10.9.9.9]:5", nil, true},
		{"outside", "8.8.8.8:5", nil, false},
		{"outside, mapped", "[::ffff:8.8.8.8]:5", nil, false},
		{"outside, IPv6", "[2001:4860::1]:5", nil, false},
		{"just outside of 172.16/12", "172.32.0.1:5", nil, false},
		{"link-local", "[fe80::1%eth0]:5", nil, false},
		{"no address", "@", nil, false},
		{"empty", "", nil, false},
		{"a name", "localhost:5", nil, false},
		{"outside, and says that it is not", "8.8.8.8:5", []string{"127.0.0.1"}, false},
		{"inside, and says that it is not", "192.168.3.4:5", []string{"8.8.8.8"}, true},
	}
	for _, tt := range tests {
		tt.check(t, r)
		tt.check(t, behind)
	}
	for _, tt := range []forwardedTest{
		{"proxy, for an allowed one", "10.0.0.1:5", []string{"203.0.113.7"}, true},
		{"proxy, mapped", "[::ffff:10.0.0.1]:5", []string{"::ffff:203.0.113.7"}, true},
		{"proxy, IPv6", "[fd00::1]:5", []string{"2001:db8::7"}, true},
		{"proxy, for another one", "10.0.0.1:5", []string{"203.0.113.8"}, false},
		{"a spoofed hop before the last", "10.0.0.1:5", []string{"203.0.113.7, 8.8.8.8"}, false},
		{"a spoofed header before the last", "10.0.0.1:5", []string{"203.0.113.7", "8.8.8.8"}, false},
		{"a hop of garbage before the last", "10.0.0.1:5", []string{"<script>, 203.0.113.7"}, true},
		{"the last hop is garbage", "10.0.0.1:5", []string{"203.0.113.7, unknown"}, false},
		{"the last hop is empty", "10.0.0.1:5", []string{"203.0.113.7,"}, false},
		{"several proxies", "10.0.0.1:5", []string{"8.8.8.8, 203.0.113.7, 10.0.0.2", "10.0.0.3"}, true},
		{"several proxies, for another one", "10.0.0.1:5", []string{"203.0.113.7, 8.8.8.8, 10.0.0.2", "10.0.0.3"}, false},
		{"garbage between proxies", "10.0.0.1:5", []string{"203.0.113.7, x, 10.0.0.2"}, false},
		{"a proxy itself", "10.0.0.1:5", []string{"10.0.0.2"}, true},
		{"a proxy that tells nothing", "10.0.0.1:5", nil, false},
		{"with a port", "10.0.0.1:5", []string{"203.0.113.7:80"}, false},
		{"not a proxy", "192.168.3.4:5", []string{"8.8.8.8"}, true},
	} {
		tt.check(t, behind)
	}
}

type forwardedTest struct {
	name, from string
	forwarded  []string
	ok         bool
}

// check makes a request without a token: the address is looked at first.
func (tt forwardedTest) check(t *testing.T, r *rig) {
	t.Helper()
	header := http.Header{"X-Forwarded-For": tt.forwarded}
	for _, path := range []string{"/v1/status", healthPath} {
		resp := r.serve(tt.from, http.MethodGet, path, untouched{t}, header)
		want := http.StatusForbidden
		if tt.ok {
			want = map[string]int{"/v1/status": http.StatusUnauthorized, healthPath: http.StatusOK}[path]
		}
		if resp.Status != want || !tt.ok && resp.code() != "FORBIDDEN_IP" {
			t.Errorf("%s: %s answers %d %s", tt.name, path, resp.Status, resp.Body)
		}
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	req.RemoteAddr, req.Header = tt.from, header
	if err := r.Access.AdmitAddress(req); (err == nil) != tt.ok {
		t.Errorf("%s: AdmitAddress: %v", tt.name, err)
	}
}

// No header makes a caller who is no proxy anything but what it is, nor a proxy speak for an address that it did not add.
func FuzzR03ForwardedFor(f *testing.F) {
	for _, seed := range []string{"", "203.0.113.7", "203.0.113.7, 10.0.0.2", "::ffff:203.0.113.7", "fe80::1%eth0", "x,y", ",", "10.0.0.1:80", strings.Repeat(",", 100)} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	a := &Access{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	f.Fuzz(func(t *testing.T, forwarded string, proxy bool) {
		req := &http.Request{RemoteAddr: "192.0.2.1:5", Header: http.Header{"X-Forwarded-For": {forwarded}}}
		if proxy {
			req.RemoteAddr = "10.0.0.1:5"
		}
		ip, err := a.caller(req)
		if !proxy {
			if err != nil || ip != netip.MustParseAddr("192.0.2.1") {
				t.Errorf("%q made another caller: %v, %v", forwarded, ip, err)
			}
			return
		}
		if err != nil {
			return
		}
		if ip.Is4In6() || ip.Zone() != "" {
			t.Errorf("%q: %v can slip through a prefix", forwarded, ip)
		}
		// All hops after that one are proxies.
		hops := strings.Split(forwarded, ",")
		for _, text := range slices.Backward(hops) {
			hop, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				t.Fatalf("%q: hop %q was passed over", forwarded, text)
			}
			if hop = hop.Unmap().WithZone(""); hop == ip {
				return
			}
			if !contains(a.Proxies, hop) {
				t.Fatalf("%q: %v is not the last hop that is no proxy", forwarded, ip)
			}
		}
		t.Errorf("%q does not have %v", forwarded, ip)
	})
}
