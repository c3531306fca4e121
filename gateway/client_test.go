package gateway_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestClientAddress(t *testing.T) {
	tests := []struct {
		name, url string
		want      string // of the error; empty when there is none
	}{
		{"https", "https://gateway.example", ""},
		{"with a port and a path", "https://gateway.example:8443/api/", ""},
		{"this machine", "http://localhost:8080", ""},
		{"this machine by number", "http://127.0.0.9:8080", ""},
		{"this machine, version 6", "http://[::1]:8080", ""},
		{"plain http to elsewhere", "http://gateway.example", "must begin with https://"},
		{"plain http to a name that only begins like this machine's", "http://localhost.example", "must begin with https://"},
		{"an address of the house", "http://192.168.1.7", "must begin with https://"},
		{"no scheme", "gateway.example", "must begin with https://"},
		{"another scheme", "redis://gateway.example", "must begin with https://"},
		{"empty", "", "must begin with https://"},
		{"no host", "https:///x", "names no host"},
		{"a password", "https://me:hunter2@gateway.example", "must not hold a user or password"},
		{"a password and no scheme", "default:hunter2@gateway.example:6379/0", "must begin with https://"},
		{"a password and no colon", "https//:hunter2@gateway.example", "must begin with https://"},
		{"a password and no slashes", "https:hunter2@gateway.example", "names no host"},
		{"a password in a query, and another scheme", "redis://gateway.example/0?password=hunter2", "must begin with https://"},
		{"a query", "https://gateway.example/?token=hunter2", "must not have a query"},
		{"no URL", "https://gateway.example:hunter2", "is not a URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := gateway.NewClient(gateway.ClientConfig{URL: tt.url})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("NewClient(%q): %v, want %q", tt.url, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// serve returns a client of a server that answers with h.
func serve(t *testing.T, h http.HandlerFunc) *gateway.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return clientOf(t, gateway.ClientConfig{URL: srv.URL + "/prefix/"})
}

func clientOf(t *testing.T, cfg gateway.ClientConfig) *gateway.Client {
	t.Helper()
	if cfg.Tokens == nil {
		path := filepath.Join(t.TempDir(), "token")
		if err := gateway.SaveToken(path, gateway.Token{Token: theToken}); err != nil {
			t.Fatal(err)
		}
		tokens, err := gateway.OpenTokenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Tokens = tokens
	}
	c, err := gateway.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func says(status int, kind, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestClientJudgesAnswers(t *testing.T) {
	const js, html = "application/json", "text/html; charset=utf-8"
	good := `{"lease_id":"L","lease_ttl_seconds":600,"expires_at":1,"cancel_requested":false,"new_field":1}`
	tests := []struct {
		name string
		h    http.HandlerFunc
		want string // in the error; empty for none
		code wire.Code
		is   error
		wait time.Duration
	}{
		{name: "good", h: says(200, js, good)},
		{name: "a page with status 200", h: says(200, html, "<html>Welcome to the hotel"+strings.Repeat("!", 5000)), want: `beginning "<html>Welcome`, is: jobs.ErrUnavailable},
		{name: "a page with status 403", h: says(403, html, "<html>Blocked"), want: `"<html>Blocked"`, is: jobs.ErrUnavailable},
		{name: "JSON of another server", h: says(403, js, `{"message":"Forbidden"}`), want: "not a gateway's", is: jobs.ErrUnavailable},
		{name: "an error of the gateway's", h: says(409, js, `{"error":{"code":"LEASE_LOST","message":"it is lost","details":{}}}`), want: "status 409 LEASE_LOST: it is lost", code: wire.LeaseLost, is: jobs.ErrLeaseLost},
		{name: "trouble of the gateway's", h: says(503, js, `{"error":{"code":"UNAVAILABLE","message":"x","details":{}}}`, "Retry-After", "7"), want: "UNAVAILABLE", code: wire.Unavailable, is: jobs.ErrUnavailable, wait: 7 * time.Second},
		{name: "a date to come back", h: says(503, html, "busy", "Retry-After", time.Now().Add(24*time.Hour).UTC().Format(http.TimeFormat)), want: "busy", is: jobs.ErrUnavailable, wait: 10 * time.Minute},
		{name: "cut off", h: says(200, js, good[:30]), want: "cut off after 30 bytes", is: jobs.ErrUnavailable},
		{name: "empty", h: says(200, js, ""), want: "cut off after 0 bytes", is: jobs.ErrUnavailable},
		{name: "shorter than announced", h: says(200, js, good, "Content-Length", "1000"), want: "read the answer", is: jobs.ErrUnavailable},
		{name: "two values", h: says(200, js, good+good), want: "more than one JSON value", is: jobs.ErrUnavailable},
		{name: "wrong types", h: says(200, js, `{"lease_id":7}`), want: "not a gateway's", is: jobs.ErrUnavailable},
		{name: "another lease", h: says(200, js, strings.Replace(good, `"L"`, `"M"`, 1)), want: "another lease", is: jobs.ErrUnavailable},
		{name: "nothing", h: says(204, js, ""), want: "status 204", is: jobs.ErrUnavailable},
		{name: "huge", h: says(200, js, strings.Repeat(" ", 1<<20)+good), want: "longer than 262144 bytes", is: jobs.ErrUnavailable},
		{name: "a secret in a page", h: says(500, html, "upstream redis://user:hunter2@host and zpw_hunter2hunter2 and Bearer hunter2hunter2"), want: "[redacted]", is: jobs.ErrUnavailable},
		{name: "a secret with a slash", h: says(500, html, "redis://user:hunter2/hunter2@host"), want: "[redacted]", is: jobs.ErrUnavailable},
		{name: "a secret in an error", h: says(400, js, `{"error":{"code":"INVALID_PAYLOAD","message":"https://u:hunter2@h and `+theToken+`"}}`), want: "[redacted]", code: wire.InvalidPayload},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := serve(t, tt.h).Heartbeat(t.Context(), "j1", wire.HeartbeatRequest{LeaseID: "L"})
			if tt.want == "" {
				if err != nil || a.LeaseTTLSeconds != 600 {
					t.Fatalf("got %+v, %v", a, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q in it", err, tt.want)
			}
			if len(err.Error()) > 600 || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), theToken) {
				t.Errorf("the error is long or shows a secret: %v", err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			e := (*gateway.Error)(nil)
			errors.As(err, &e)
			if tt.code != "" && (e == nil || e.Code != tt.code) || tt.wait != 0 && (e == nil || e.RetryAfter != tt.wait) {
				t.Errorf("got %+v, want code %q and to wait %s", e, tt.code, tt.wait)
			}
		})
	}
}

// A cut must not take the end off a secret, by which it is known.
func TestZ83ClientTakesSecretsOutBeforeItCuts(t *testing.T) {
	const secret = " redis://user:hunter2hunter2@host"
	for _, h := range []http.HandlerFunc{
		says(500, "text/html", strings.Repeat("x", 175)+secret),
		says(400, "application/json", `{"error":{"code":"INVALID_PAYLOAD","message":"`+strings.Repeat(" xxxx", 195)+secret+`"}}`),
	} {
		_, err := serve(t, h).Heartbeat(t.Context(), "j1", wire.HeartbeatRequest{LeaseID: "L"})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "xx redis://[re") {
			t.Errorf("got %v", err)
		}
	}
}

func TestClientJudgesLeases(t *testing.T) {
	const good = `{"job_id":"j1","payload":{"a":1e-17},"lease_id":"L","lease_ttl_seconds":600,"retry_count":2}`
	for _, tt := range []struct{ name, body, want string }{
		{"good", good, ""},
		{"no job", strings.Replace(good, `"j1"`, `""`, 1), "job id is empty"},
		{"a path for a job", strings.Replace(good, `"j1"`, `"../x"`, 1), "job_id"},
		{"a lease with a newline", strings.Replace(good, `"L"`, `"L\n"`, 1), "lease_id"},
		{"no lease", strings.Replace(good, `"L"`, `""`, 1), "lease_id"},
		{"a lease of 201 characters", strings.Replace(good, `"L"`, `"`+strings.Repeat("l", 201)+`"`, 1), "lease_id"},
		{"no time", strings.Replace(good, `600`, `0`, 1), "lease_ttl_seconds"},
		{"endless", strings.Replace(good, `600`, `1e300`, 1), "lease_ttl_seconds"},
		{"not a number", strings.Replace(good, `600`, `NaN`, 1), "not a gateway's"},
		{"no payload", strings.Replace(good, `"payload":{"a":1e-17},`, ``, 1), "payload"},
		{"negative retries", strings.Replace(good, `:2}`, `:-2}`, 1), "retry_count"},
		{"an array", `[]`, "not a gateway's"},
		{"null", `null`, "job id is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := serve(t, says(200, "application/json", tt.body)).Lease(t.Context(), wire.LeaseRequest{})
			if tt.want == "" {
				if err != nil || string(a.Payload) != `{"a":1e-17}` {
					t.Errorf("got %+v, %v", a, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want %q", a, err, tt.want)
			}
		})
	}
}

func TestClientFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		followed := false
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			followed = true
			t.Errorf("%d was followed, with Authorization %q", status, r.Header.Get("Authorization"))
		}))
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/x?secret=hunter2", status)
		})
		_, err := c.Lease(t.Context(), wire.LeaseRequest{})
		if err == nil || !strings.Contains(err.Error(), "redirects to "+other.URL) || strings.Contains(err.Error(), "hunter2") || followed {
			t.Errorf("%d: %v", status, err)
		}
		other.Close()
	}
}

func TestClientPathsAndHeaders(t *testing.T) {
	var got *http.Request
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		says(200, "application/json", `{"ok":true}`)(w, r)
	})
	if _, err := c.Failed(t.Context(), "j1", wire.FailedRequest{LeaseID: "L"}); err != nil {
		t.Fatal(err)
	}
	if got.URL.Path != "/prefix/calc/zpe/compute/jobs/j1/failed" || got.Method != http.MethodPost {
		t.Errorf("%s %s", got.Method, got.URL)
	}
	for name, want := range map[string]string{"User-Agent": "batchfleet/unknown", "Content-Type": "application/json", "Authorization": "Bearer " + theToken, "Accept-Encoding": "", "X-Idempotency-Key": ""} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
}

func TestClientGivesUpOnASlowGateway(t *testing.T) {
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(200)
		_, _ = io.WriteString(w, `{"lease_id":`)
		w.(http.Flusher).Flush()
		<-stop // the rest never comes
	}))
	defer srv.Close()
	defer close(stop)
	c := clientOf(t, gateway.ClientConfig{URL: srv.URL})
	c.WaitFor(50 * time.Millisecond)
	_, err := c.Heartbeat(t.Context(), "j1", wire.HeartbeatRequest{LeaseID: "L"})
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("mine")
	cancel(mine)
	if _, err := c.Lease(ctx, wire.LeaseRequest{}); !errors.Is(err, mine) {
		t.Errorf("got %v, want the caller's own cause", err)
	}
}

func TestClientSaysThatNobodyIsThere(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, err = clientOf(t, gateway.ClientConfig{URL: "http://" + l.Addr().String()}).Lease(t.Context(), wire.LeaseRequest{})
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestClientTrustsItsCAFile(t *testing.T) {
	srv := httptest.NewUnstartedServer(says(200, "application/json", `{"ok":true}`))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of handshakes that are to fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := clientOf(t, gateway.ClientConfig{URL: srv.URL, CAFile: file}).Failed(t.Context(), "j1", wire.FailedRequest{}); err != nil {
		t.Errorf("with its CA: %v", err)
	}
	if _, err := clientOf(t, gateway.ClientConfig{URL: srv.URL}).Failed(t.Context(), "j1", wire.FailedRequest{}); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without: %v", err)
	} else if !strings.Contains(err.Error(), "give it with GATEWAY_CA_FILE") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	for name, content := range map[string]string{"empty": "", "key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := gateway.NewClient(gateway.ClientConfig{URL: srv.URL, CAFile: path}); !errors.Is(err, gateway.ErrCAFile) || !strings.Contains(err.Error(), "no certificate") {
			t.Errorf("CA file %s: %v", name, err)
		}
	}
	if _, err := gateway.NewClient(gateway.ClientConfig{URL: srv.URL, CAFile: "/nowhere"}); !errors.Is(err, gateway.ErrCAFile) {
		t.Errorf("a CA file that is missing: %v", err)
	}
}

// connectProxy is an HTTP proxy that knows CONNECT, and sends all of it to addr.
func connectProxy(t *testing.T, addr string, seen chan<- string) *httptest.Server {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Method + " " + r.Host + " " + r.Header.Get("Authorization")
		if r.Method != http.MethodConnect {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		up, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", addr)
		if err != nil {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		down, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(up, down); _ = up.Close() }()
		go func() { _, _ = io.Copy(down, up); _ = down.Close() }()
	}))
	t.Cleanup(proxy.Close)
	return proxy
}

func TestClientGoesThroughAProxyAndShowsItNoToken(t *testing.T) {
	srv := httptest.NewTLSServer(says(200, "application/json", `{"ok":true}`))
	t.Cleanup(srv.Close)
	seen := make(chan string, 10)
	proxy := connectProxy(t, srv.Listener.Addr().String(), seen)
	to, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	// httptest's certificate is for example.com, which does not exist for us.
	c := clientOf(t, gateway.ClientConfig{URL: "https://example.com", CAFile: file})
	c.ProxyBy(to)
	if _, err := c.Failed(t.Context(), "j1", wire.FailedRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "CONNECT example.com:443 " {
		t.Errorf("the proxy saw %q", got)
	}

	// The environment may name it, too. Package http reads it once in a process.
	out := runChild(t, "proxy", []string{"HTTPS_PROXY=" + strings.Replace(proxy.URL, "http://", "http://me:hunter2@", 1), "NO_PROXY=no.example"}, file)
	for _, want := range []string{"example.com: <nil>", "no.example: ", "127.0.0.1: "} {
		if !strings.Contains(out, want) {
			t.Errorf("the child said %q, want %q", out, want)
		}
	}
	if got := <-seen; got != "CONNECT example.com:443 " || len(seen) != 0 {
		t.Errorf("the proxy saw %q and %d more", got, len(seen))
	}
	if strings.Contains(out, "hunter2") {
		t.Errorf("the proxy's password is shown: %s", out)
	}
}

func proxyChild(ca string) {
	for _, host := range []string{"example.com", "no.example", "127.0.0.1"} {
		patience := 5 * time.Second
		if host == "example.com" { // which answers, however slow the machine is
			patience = time.Minute
		}
		c, err := gateway.NewClient(gateway.ClientConfig{URL: "https://" + host, CAFile: ca})
		if err == nil {
			c.WaitFor(patience)
			_, err = c.Failed(context.Background(), "j1", wire.FailedRequest{})
		}
		fmt.Printf("%s: %v\n", host, err)
	}
}

func TestTokenIsSentToItsOwnGatewayOnly(t *testing.T) {
	for _, tt := range []struct {
		name, own, url string
		other          bool
	}{
		{"the same", "https://g.example", "https://g.example", false},
		{"written otherwise", "https://g.example:443/", "HTTPS://G.example./", false},
		{"with a path", "https://g.example/api", "https://g.example/api/", false},
		{"of this machine", "http://127.0.0.1:8080", "http://127.0.0.1:8080", false},
		{"that names none", "", "https://g.example", false},
		{"another host", "https://g.example", "https://g.example.evil.example", true},
		{"another port", "https://g.example", "https://g.example:8443", true},
		{"another path", "https://g.example/api", "https://g.example", true},
		{"another scheme", "https://localhost:8080", "http://localhost:8080", true},
		{"that names nonsense", "hunter2", "https://g.example", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := gateway.SaveToken(path, gateway.Token{Gateway: tt.own, Token: theToken}); err != nil {
				t.Fatal(err)
			}
			tokens, err := gateway.OpenTokenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = gateway.NewClient(gateway.ClientConfig{URL: tt.url, Tokens: tokens})
			if errors.Is(err, gateway.ErrOtherGateway) != tt.other || !tt.other && err != nil {
				t.Errorf("a token for %q at %q: %v", tt.own, tt.url, err)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), theToken)) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestTokenOfAnotherGatewayIsNotReread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := gateway.SaveToken(path, gateway.Token{Token: theToken}); err != nil {
		t.Fatal(err)
	}
	tokens, err := gateway.OpenTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization"))
		says(401, "application/json", `{"error":{"code":"TOKEN_EXPIRED","message":"expired"}}`)(w, r)
	}))
	defer srv.Close()
	c := clientOf(t, gateway.ClientConfig{URL: srv.URL, Tokens: tokens})
	if err := gateway.SaveToken(path, gateway.Token{Gateway: "https://other.example", Token: "zpw_token-for-the-other"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Failed(t.Context(), "j1", wire.FailedRequest{}); err == nil || len(sent) != 1 || sent[0] != "Bearer "+theToken {
		t.Errorf("sent %q, %v; want the old token once", sent, err)
	}
}

func TestClientChecksAGateway(t *testing.T) {
	const js = "application/json"
	for _, tt := range []struct {
		name string
		h    http.HandlerFunc
		want string
	}{
		{"one that takes the token", says(404, js, `{"error":{"code":"JOB_NOT_FOUND","message":"No such job"}}`), ""},
		{"one that does not", says(401, js, `{"error":{"code":"TOKEN_EXPIRED","message":"expired"}}`), "TOKEN_EXPIRED"},
		{"another route", says(404, js, `{"error":{"code":"NOT_FOUND","message":"No such route"}}`), "No such route"},
		{"a page", says(404, "text/plain", "404 page not found"), "not a gateway's"},
		{"a server that accepts everything", says(200, js, `{"lease_id":"none","lease_ttl_seconds":600}`), "cannot exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := serve(t, tt.h).Check(t.Context())
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestClientRereadsARefusedToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("old-token-text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := gateway.OpenTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; r.Header.Get("Authorization") != "Bearer new-token-text" {
			says(401, "application/json", `{"error":{"code":"TOKEN_EXPIRED","message":"expired"}}`)(w, r)
			return
		}
		says(200, "application/json", `{"ok":true}`)(w, r)
	}))
	defer srv.Close()
	c := clientOf(t, gateway.ClientConfig{URL: srv.URL, Tokens: tokens})
	e := (*gateway.Error)(nil)
	if _, err := c.Failed(t.Context(), "j1", wire.FailedRequest{}); !errors.As(err, &e) || e.Code != wire.TokenExpired || calls != 1 {
		t.Errorf("with an old token: %v, %d calls", err, calls)
	}
	if err := os.WriteFile(path, []byte("new-token-text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Failed(t.Context(), "j1", wire.FailedRequest{}); err != nil || calls != 3 {
		t.Errorf("after the file was replaced: %v, %d calls", err, calls)
	}
}
