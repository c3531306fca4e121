package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

const token = "orange-mango-77"

func TestR63ResponsesAreRead(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = fmt.Fprintf(w, "%s %s %s %d %s %s", r.Method, r.URL, r.Header.Get("X-Relay-Token"), r.ContentLength, sent, r.Header.Get("User-Agent"))
	})
	c := clientOf(t, server)
	r := request(server.URL + "/a%2Fb?c=d")
	r.ResponseLimit = 1000
	for range 2 {
		got, err := c.Do(t.Context(), r)
		want := "POST /a%2Fb?c=d " + token + " 5 hello batchfleet"
		if err != nil || got.Status != http.StatusTooManyRequests || got.RetryAfter != 7*time.Second || string(got.Body) != want || got.Cut {
			t.Errorf("got %+v %s, %v; want %s", got, got.Body, err, want)
		}
	}
	r.ResponseLimit = 4
	if got, err := c.Do(t.Context(), r); err != nil || string(got.Body) != "POST" || !got.Cut {
		t.Errorf("got %+v, %v; want POST, cut", got, err)
	}
	r.ResponseLimit = 0
	if got, err := c.Do(t.Context(), r); err != nil || got.Body != nil || got.Status != http.StatusTooManyRequests {
		t.Errorf("got %+v, %v; want a status and no body", got, err)
	}
}

func TestR63EmptyBodyHasALength(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.ContentLength, r.TransferEncoding, r.Header["Content-Length"])
	})
	opened := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }
	for _, body := range []func() (io.ReadCloser, error){nil, opened} {
		r := &Request{Method: http.MethodPut, URL: server.URL, Body: body, ResponseLimit: 100}
		if got, err := clientOf(t, server).Do(t.Context(), r); err != nil || string(got.Body) != "0 [] [0]" {
			t.Errorf("got %s, %v; want 0 [] [0]", got.Body, err)
		}
	}
}

func TestR63R65RedirectsAreNotFollowed(t *testing.T) {
	var other atomic.Int32
	target := serve(t, func(http.ResponseWriter, *http.Request) { other.Add(1) })
	for _, to := range []string{target.URL, "http://169.254.169.254/latest/meta-data/", "//%%bad", ""} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					other.Add(1)
				}
				w.Header()["Location"] = []string{to}
				w.WriteHeader(status)
			})
			c := clientOf(t, server)
			c.policy.Ports = append(c.policy.Ports, portOf(t, target.URL)) // it might be called
			if got, err := c.Do(t.Context(), request(server.URL)); err != nil || got.Status != status {
				t.Errorf("redirect to %q: %+v, %v; want status %d", to, got, err, status)
			}
		}
	}
	if n := other.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestR65NamesAreCheckedWhenTheyAreCalled(t *testing.T) {
	var calls atomic.Int32
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Connection", "close")
	})
	dns := newDNS(t)
	c := clientOf(t, server, dns.use)
	r := request("http://hooks.example:" + strconv.Itoa(int(portOf(t, server.URL))))
	if got, err := c.Do(t.Context(), r); err != nil || got.Status != http.StatusOK {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, rebound := range []string{"127.0.0.2", "169.254.169.254", "10.0.0.7", "0.0.0.0"} {
		dns.answer(rebound)
		_, err := c.Do(t.Context(), r)
		if !errors.Is(err, ErrDenied) || errors.Is(err, jobs.ErrUnavailable) || strings.Contains(err.Error(), rebound) {
			t.Errorf("the name has become %s: %v, want %v without the address", rebound, err, ErrDenied)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("there were %d calls, want 1", n)
	}
	dns.answer("")
	if _, err := c.Do(t.Context(), r); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "DNS does not know its host") {
		t.Errorf("no such name: %v", err)
	}
}

func TestR65ProxiesOfTheEnvironmentAreNotUsed(t *testing.T) { // which TestMain has set
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	c := clientOf(t, server, newDNS(t).use)
	got, err := c.Do(t.Context(), request("http://hooks.example:"+strconv.Itoa(int(portOf(t, server.URL)))))
	if err != nil || got.Status != http.StatusTeapot {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestR65EveryCallIsChecked(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was called") })
	c := clientOf(t, server)
	for _, r := range []*Request{
		{URL: "http://localhost:" + strconv.Itoa(int(portOf(t, server.URL)))},
		{URL: "http://127.0.0.1/"},
		{URL: server.URL, Method: "CONNECT"},
		{URL: server.URL, Method: "GET / HTTP/1.1\r\nX-Evil:"},
		{URL: server.URL, Header: http.Header{"X-A": {"b\r\nX-Evil: c"}}},
		{URL: server.URL, Header: http.Header{"X-A": {"b\x00"}}},
		{URL: server.URL, Header: http.Header{"X-A: b\r\nX-Evil": {"c"}}},
		{URL: server.URL, Header: http.Header{"": {"c"}}},
	} {
		if got, err := c.Do(t.Context(), r); !errors.Is(err, ErrDenied) {
			t.Errorf("%+v: %+v, %v; want %v", r, got, err, ErrDenied)
		}
	}
}

func TestR65HeadersDoNotChangeHostAndLength(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, r.Host, " ", string(sent), r.TransferEncoding, r.Trailer)
	})
	want := strings.TrimPrefix(server.URL, "http://") + " hello[] map[]"
	for _, h := range []http.Header{
		{"Host": {"evil.example"}, "Content-Length": {"1"}, "Transfer-Encoding": {"chunked"}, "Trailer": {"X"}},
		{"host": {"evil.example"}, "content-length": {"1"}, "transfer-encoding": {"chunked"}, "trailer": {"X"}},
	} {
		r := request(server.URL)
		r.Header, r.ResponseLimit = h, 1000
		if got, err := clientOf(t, server).Do(t.Context(), r); err != nil || string(got.Body) != want {
			t.Errorf("%v: got %d %s, %v; want %s", h, got.Status, got.Body, err, want)
		}
	}
}

func TestR65CertificatesAreChecked(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = quiet
	server.StartTLS() // for example.com
	t.Cleanup(server.Close)
	trust := func(p *Policy) {
		p.CAs = x509.NewCertPool()
		p.CAs.AddCert(server.Certificate())
	}
	dns := newDNS(t)
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		name, host, port string
		with             []func(*Policy)
		want             string
	}{
		{"the right name", "example.com", "", []func(*Policy){dns.use, trust}, ""},
		{"the right name with a final dot", "EXAMPLE.com.", "", []func(*Policy){dns.use, trust}, ""},
		{"another name", "hooks.example", "", []func(*Policy){dns.use, trust}, "it is for another host"},
		{"an authority that is not known", "example.com", "", []func(*Policy){dns.use}, "signed by an authority that is not trusted"},
		{"no TLS", "example.com", plain.URL[strings.LastIndex(plain.URL, ":")+1:], []func(*Policy){dns.use, trust}, "it does not speak TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := tt.port
			if port == "" {
				port = strconv.Itoa(int(portOf(t, server.URL)))
			}
			c := clientOf(t, server, tt.with...)
			c.policy.Ports = append(c.policy.Ports, portOf(t, plain.URL))
			got, err := c.Do(t.Context(), request("https://"+tt.host+":"+port))
			if tt.want == "" && (err != nil || got.Status != http.StatusOK) || tt.want != "" && (!errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %+v, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestBodyIsSentAsItWasAnnounced(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength {
			panic(http.ErrAbortHandler)
		}
	})
	c := clientOf(t, server)
	unreadable := errors.New("the disk is gone")
	for _, tt := range []struct {
		name string
		body func() (io.ReadCloser, error)
		want string
	}{
		{"as long as announced", of(strings.Repeat("a", 100_000), nil), ""},
		{"shorter", of("a", nil), "does not have the 100000 bytes"},
		{"longer", of(strings.Repeat("a", 100_001), nil), "does not have the 100000 bytes"},
		{"much longer", of(strings.Repeat("a", 1_000_000), nil), "does not have the 100000 bytes"},
		{"as long as announced, and then it cannot be read", of(strings.Repeat("a", 100_000), unreadable), "the disk is gone"},
		{"cannot be opened", func() (io.ReadCloser, error) { return nil, unreadable }, "the disk is gone"},
		{"cannot be read to its end", of(strings.Repeat("a", 70_000), unreadable), "the disk is gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Request{Method: http.MethodPut, URL: server.URL, Body: tt.body, Length: 100_000, Timeout: time.Minute}
			_, err := c.Do(t.Context(), r)
			if tt.want == "" && err != nil || tt.want != "" && !strings.Contains(errorText(err), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if errors.Is(err, jobs.ErrUnavailable) || strings.Contains(tt.want, "disk") && !errors.Is(err, unreadable) {
				t.Errorf("got %v, which is not the body's own error", err)
			}
		})
	}
}

// A connection that was kept open may be closed by its server just when it is used again.
func TestBodyIsOpenedAgainForAnotherConnection(t *testing.T) {
	var served atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if served.Add(1) == 2 {
			panic(http.ErrAbortHandler) // after the request, before the answer
		}
	})
	c := clientOf(t, server)
	r := request(server.URL)
	r.Header.Set("Idempotency-Key", "a") // makes it one that net/http repeats
	for range 2 {
		if got, err := c.Do(t.Context(), r); err != nil || got.Status != http.StatusOK {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if n := served.Load(); n != 3 {
		t.Errorf("the server has got %d requests, want 3", n)
	}
}

// request is a call that carries a secret.
func request(address string) *Request {
	return &Request{
		Method: http.MethodPost, URL: address, Header: http.Header{"X-Relay-Token": {token}}, Timeout: time.Minute,
		Body: of("hello", nil), Length: 5,
	}
}

// of returns what opens a text, each time from its beginning, that ends with err if there is one.
func of(text string, err error) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		if err == nil {
			return io.NopCloser(strings.NewReader(text)), nil
		}
		return io.NopCloser(io.MultiReader(strings.NewReader(text), failing{err})), nil
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// serve returns a server on a port of all addresses of this machine, whose URL is the one on 127.0.0.1.
func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	all, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Listener.Close()
	server.Listener = all
	server.Config.ErrorLog = quiet
	server.Start()
	server.URL = "http://127.0.0.1:" + strconv.Itoa(all.Addr().(*net.TCPAddr).Port)
	t.Cleanup(server.Close)
	return server
}

// clientOf returns a client that may call a server on 127.0.0.1, and the names that are used here.
func clientOf(t *testing.T, server *httptest.Server, with ...func(*Policy)) *Client {
	t.Helper()
	p := Policy{
		Hosts: []string{"127.0.0.1", "hooks.example", "example.com"}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Ports: []uint16{portOf(t, server.URL)}, HTTP: true,
	}
	for _, f := range with {
		f(&p)
	}
	c := New(p)
	t.Cleanup(c.Close)
	return c
}

func portOf(t *testing.T, address string) uint16 {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(n)
}
