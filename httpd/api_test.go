package httpd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/httpd"
)

// testAPI returns an API with a route for everything that is tested, and where
// it logs to.
func testAPI() (*httpd.API, *bytes.Buffer) {
	var logged bytes.Buffer
	api := &httpd.API{Log: slog.New(slog.NewJSONHandler(&logged, nil)), WriteError: writeError}
	api.Handle("GET /read/{name}", func(w http.ResponseWriter, r *http.Request) error {
		_, err := fmt.Fprintf(w, "read %s %s", r.PathValue("name"), httpd.RequestID(r.Context()))
		return err
	})
	api.Handle("GET /tree/", func(w http.ResponseWriter, _ *http.Request) error { return say(w, "tree") })
	api.Handle("GET /files/{path...}", func(w http.ResponseWriter, r *http.Request) error { return say(w, r.PathValue("path")) })
	api.Handle("POST /jobs/{id}", func(w http.ResponseWriter, r *http.Request) error {
		if _, err := httpd.Bearer(r); err != nil {
			return err
		}
		var body struct {
			N int `json:"n"`
		}
		if err := httpd.ReadJSON(w, r, 1000, &body, httpd.BodyOptions{}); err != nil {
			return fmt.Errorf("read job: %w", err)
		}
		return say(w, fmt.Sprint("n=", body.N))
	})
	api.Handle("GET /fail/{how}", func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Disposition", "attachment")
		w.Header().Set("Content-Length", "100000")
		switch r.PathValue("how") {
		case "panic":
			panic("secret insides")
		case "abort":
			panic(http.ErrAbortHandler)
		case "half":
			_, _ = io.WriteString(w, "half of it")
			return errors.New("disk died")
		case "busy":
			return &httpd.StatusError{Status: 503, Header: http.Header{"Retry-After": {"7"}}, Err: errors.New("redis is away")}
		case "own":
			w.Header().Del("Content-Length")
			w.WriteHeader(http.StatusBadGateway)
			return nil
		default:
			return errors.New("secret insides")
		}
	})
	return api, &logged
}

func say(w http.ResponseWriter, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func TestZ03EveryErrorIsWrittenByTheAPI(t *testing.T) {
	tests := []struct {
		name, method, target string
		status               int
		header, value        string
	}{
		{"unknown route", "GET", "/nothing", 404, "", ""},
		{"root", "GET", "/", 404, "", ""},
		{"wrong method", "GET", "/jobs/1", 405, "Allow", "POST, OPTIONS"},
		{"wrong method where GET is right", "PUT", "/read/x", 405, "Allow", "GET, HEAD, OPTIONS"},
		{"unknown method", "BREW", "/jobs/1", 405, "Allow", "POST, OPTIONS"},
		{"TRACE", "TRACE", "/read/x", 405, "Allow", "GET, HEAD, OPTIONS"},
		{"no redirect to a trailing slash", "GET", "/tree", 404, "Location", ""},
		{"trailing slash too many", "GET", "/read/x/", 404, "Location", ""},
		{"two slashes", "GET", "/read//x", 404, "Location", ""},
		{"two slashes at the beginning", "GET", "//read/x", 404, "Location", ""},
		{"dot segments", "GET", "/tree/../read/x", 404, "Location", ""},
		{"encoded dot segments", "GET", "/files/%2e%2e/x", 404, "", ""},
		{"encoded dots at the end", "GET", "/read/%2E%2e", 404, "", ""},
		{"encoded slash", "GET", "/read/..%2f..%2Fetc", 404, "", ""},
		{"encoded backslash", "GET", "/read/..%5cx", 404, "", ""},
		{"NUL", "GET", "/read/x%00", 404, "", ""},
		{"line feed", "GET", "/read/x%0a", 404, "", ""},
		{"not UTF-8", "GET", "/read/%ff", 404, "", ""},
		{"no token", "POST", "/jobs/1", 401, "Www-Authenticate", "Bearer"},
		{"unknown error", "GET", "/fail/x", 500, "", ""},
		{"panic", "GET", "/fail/panic", 500, "", ""},
		{"busy", "GET", "/fail/busy", 503, "Retry-After", "7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api, _ := testAPI()
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, "http://host"+tt.target, nil))
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			if got := w.Header().Get(tt.header); got != tt.value {
				t.Errorf("%s is %q, want %q", tt.header, got, tt.value)
			}
			checkError(t, w.Header(), w.Body.Bytes())
		})
	}
}

// checkError fails the test unless the answer is one of writeError, and tells
// nothing it should not.
func checkError(t *testing.T, h http.Header, body []byte) {
	t.Helper()
	var got map[string]string
	if err := json.Unmarshal(body, &got); err != nil || got["error"] == "" || h.Get("Content-Type") != "application/json" {
		t.Errorf("body %q of type %q was not written by the API", body, h.Get("Content-Type"))
	}
	if strings.Contains(string(body), "secret") {
		t.Errorf("body %q tells of our insides", body)
	}
	if h.Get("X-Request-Id") == "" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("header lacks what every answer has: %v", h)
	}
	if h.Get("Content-Length") != "" && h.Get("Content-Length") != fmt.Sprint(len(body)) || h.Get("Content-Disposition") != "" {
		t.Errorf("header has what belongs to another answer: %v", h)
	}
}

func TestPlainRequestsReachTheirHandlers(t *testing.T) {
	tests := []struct{ method, target, body, allow string }{
		{"GET", "/read/x", "read x id", ""},
		{"HEAD", "/read/x", "read x id", ""}, // net/http drops the body
		{"GET", "/read/%E9%9B%AA%20%2b", "read 雪 + id", ""},
		{"GET", "/files/a/b..c/.d", "a/b..c/.d", ""},
		{"GET", "/tree/", "tree", ""},
		{"OPTIONS", "/read/x", "", "GET, HEAD, OPTIONS"},
		{"OPTIONS", "/jobs/1", "", "POST, OPTIONS"},
	}
	for _, tt := range tests {
		api, _ := testAPI()
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), tt.method, tt.target, nil)
		r.Header.Set("X-Request-Id", "id")
		api.ServeHTTP(w, r)
		if w.Code >= 300 || w.Body.String() != tt.body || w.Header().Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d %q %v", tt.method, tt.target, w.Code, w.Body, w.Header())
		}
	}
}

func TestFailuresAreLoggedOnceWithoutSecrets(t *testing.T) {
	tests := []struct {
		how, level, err string
		status          int
		stack           bool
	}{
		{"x", "ERROR", "secret insides", 500, false},
		{"panic", "ERROR", "panic: secret insides", 500, true},
		{"busy", "WARN", "redis is away", 503, false},
		{"own", "ERROR", "", 502, false},
		{"half", "ERROR", "after the answer had begun: disk died", 500, false},
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			api, logged := testAPI()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/fail/"+tt.how+"?token=HIDDEN", strings.NewReader("HIDDEN"))
			r.Header.Set("Authorization", "Bearer HIDDEN")
			r.Header.Set("X-Request-Id", "req-1")
			func() {
				defer func() {
					if v := recover(); (v == http.ErrAbortHandler) != (tt.how == "half") { //nolint:errorlint // a value that was panicked with
						t.Errorf("panic %v", v)
					}
				}()
				api.ServeHTTP(httptest.NewRecorder(), r)
			}()
			if strings.Contains(logged.String(), "HIDDEN") {
				t.Errorf("the log tells a secret: %s", logged)
			}
			var line struct {
				Level, Method, Route, Err, Stack string
				ID                               string `json:"request_id"`
				Status                           int
			}
			if err := json.Unmarshal(logged.Bytes(), &line); err != nil {
				t.Fatalf("want one line: %v\n%s", err, logged)
			}
			if line.Level != tt.level || line.Err != tt.err || line.Status != tt.status || line.ID != "req-1" ||
				line.Method != "GET" || line.Route != "GET /fail/{how}" || strings.Contains(line.Stack, "testAPI") != tt.stack {
				t.Errorf("logged %s", logged)
			}
		})
	}
	api, logged := testAPI()
	for _, path := range []string{"/read/x", "/nothing"} {
		api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	}
	if logged.Len() > 0 {
		t.Errorf("logged what has not failed: %s", logged)
	}
}

func TestZ03APanicTellsTheCallerNothing(t *testing.T) {
	api, _ := testAPI()
	var told error
	api.WriteError = func(_ http.ResponseWriter, _ *http.Request, _ int, err error) { told = err }
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/fail/panic", nil))
	if told == nil || strings.Contains(told.Error(), "secret") {
		t.Errorf("WriteError was told %v", told)
	}
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d though WriteError wrote nothing, want 500", w.Code)
	}
}

func TestAbortedHandlersAbort(t *testing.T) {
	api, logged := testAPI()
	defer func() {
		if v := recover(); v != http.ErrAbortHandler || logged.Len() > 0 { //nolint:errorlint // a value that was panicked with
			t.Errorf("panic %v, log %s", v, logged)
		}
	}()
	api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/fail/abort", nil))
}

func TestZ09RequestIDsAreEchoedOrMade(t *testing.T) {
	ulid := regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`)
	tests := []struct {
		name string
		ids  []string
		kept bool
	}{
		{"good", []string{"a.B-9_"}, true},
		{"of 64 bytes", []string{strings.Repeat("x", 64)}, true},
		{"of 65 bytes", []string{strings.Repeat("x", 65)}, false},
		{"none", nil, false},
		{"empty", []string{""}, false},
		{"two", []string{"a", "a"}, false},
		{"line break", []string{"a\nb"}, false},
		{"ends with a line break", []string{"a\n"}, false},
		{"space", []string{"a b"}, false},
	}
	for _, tt := range tests {
		api, _ := testAPI()
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/read/x", nil)
		r.Header["X-Request-Id"] = tt.ids
		api.ServeHTTP(w, r)
		got := w.Header().Get("X-Request-Id")
		if tt.kept && got != tt.ids[0] || !tt.kept && !ulid.MatchString(got) {
			t.Errorf("%s: answered with id %q", tt.name, got)
		}
		if want := "read x " + got; w.Body.String() != want {
			t.Errorf("%s: the handler saw %q, want %q", tt.name, w.Body, want)
		}
	}
	if id := httpd.RequestID(context.Background()); id != "" {
		t.Errorf("id %q outside of a request", id)
	}
}

func TestZ01OnlyOneWellFormedBearerTokenIsTaken(t *testing.T) {
	tests := []struct {
		name    string
		headers []string
		token   string
		why     httpd.TokenError
	}{
		{"good", []string{"Bearer zpw_aZ09._~+/=-"}, "zpw_aZ09._~+/=-", ""},
		{"scheme in any case", []string{"bEARER t"}, "t", ""},
		{"spaces", []string{"Bearer   t"}, "t", ""},
		{"of 512 bytes", []string{"Bearer " + strings.Repeat("x", 512)}, strings.Repeat("x", 512), ""},
		{"of 513 bytes", []string{"Bearer " + strings.Repeat("x", 513)}, "", "malformed"},
		{"none", nil, "", "missing"},
		{"two", []string{"Bearer t", "Bearer t"}, "", "several"},
		{"other scheme", []string{"Basic dDp0"}, "", "scheme"},
		{"no scheme", []string{"t"}, "", "scheme"},
		{"empty header", []string{""}, "", "scheme"},
		{"empty token", []string{"Bearer"}, "", "empty"},
		{"blank token", []string{"Bearer  "}, "", "empty"},
		{"two in one", []string{"Bearer a, Bearer b"}, "", "malformed"},
		{"space within", []string{"Bearer a b"}, "", "malformed"},
		{"tab", []string{"Bearer\tt"}, "", "scheme"},
		{"line break", []string{"Bearer t\n"}, "", "malformed"},
		{"not ASCII", []string{"Bearer é"}, "", "malformed"},
	}
	for _, tt := range tests {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header["Authorization"] = tt.headers
		token, err := httpd.Bearer(r)
		why, _ := errors.AsType[httpd.TokenError](err)
		if token != tt.token || why != tt.why {
			t.Errorf("%s: %q, %v; want %q, %q", tt.name, token, err, tt.token, tt.why)
		}
		if tt.why == "" {
			continue
		}
		status, ok := errors.AsType[*httpd.StatusError](err)
		if !ok || status.Status != 401 || status.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: error %#v", tt.name, err)
		}
	}
	if !httpd.SameToken("a", "a") || httpd.SameToken("a", "b") || httpd.SameToken("a", "") || !httpd.SameToken("", "") {
		t.Error("SameToken does not compare")
	}
}

func TestZ09PlainHTTPOnlyOnLoopbackAndBehindTrustedProxies(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	https, http1 := []string{"https"}, []string{"http"}
	tests := []struct {
		name, peer string
		proto      []string
		tls, ok    bool
	}{
		{"TLS", "203.0.113.9:5", nil, true, true},
		{"plain", "203.0.113.9:5", nil, false, false},
		{"plain, and a lie", "203.0.113.9:5", https, false, false},
		{"loopback", "127.0.0.1:5", nil, false, true},
		{"loopback of the net", "127.8.9.1:5", nil, false, true},
		{"loopback 6", "[::1]:5", nil, false, true},
		{"mapped loopback", "[::ffff:127.0.0.1]:5", nil, false, true},
		{"a proxy on loopback, secure", "127.0.0.1:5", https, false, true},
		{"a proxy on loopback, in the clear", "127.0.0.1:5", http1, false, false},
		{"trusted proxy, secure", "10.1.2.3:5", https, false, true},
		{"trusted proxy, in capitals", "10.1.2.3:5", []string{"HTTPS"}, false, true},
		{"trusted proxy 6, secure", "[fd00::1]:5", https, false, true},
		{"mapped trusted proxy", "[::ffff:10.1.2.3]:5", https, false, true},
		{"trusted proxy, in the clear", "10.1.2.3:5", http1, false, false},
		{"trusted proxy, silent", "10.1.2.3:5", nil, false, false},
		{"trusted proxy that appends to a lie", "10.1.2.3:5", []string{"https, http"}, false, false},
		{"trusted proxy that adds to a lie", "10.1.2.3:5", []string{"https", "http"}, false, false},
		{"trusted proxy, empty word", "10.1.2.3:5", []string{""}, false, false},
		{"two hops, both secure", "10.1.2.3:5", []string{"https,https"}, false, true},
		{"neighbour of the trusted", "10.2.0.1:5", https, false, false},
		{"no address", "@", https, false, false},
	}
	for _, tt := range tests {
		api, _ := testAPI()
		api.Admit = httpd.SecureOnly(proxies)
		target := "http://host/read/x"
		if tt.tls {
			target = "https://host/read/x"
		}
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", target, nil)
		r.RemoteAddr = tt.peer
		if tt.proto != nil {
			r.Header["X-Forwarded-Proto"] = tt.proto
		}
		api.ServeHTTP(w, r)
		if want := map[bool]int{true: 200, false: 403}[tt.ok]; w.Code != want {
			t.Errorf("%s: %d, want %d", tt.name, w.Code, want)
		}
		if !tt.ok {
			checkError(t, w.Header(), w.Body.Bytes())
		}
	}
}
