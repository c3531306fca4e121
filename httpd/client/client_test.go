package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestParseBase(t *testing.T) {
	for _, tt := range []struct{ in, want, problem string }{
		{"https://host/a/", "https://host/a", ""},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080", ""},
		{"http://[::1]:80/", "http://[::1]:80", ""},
		{"http://LOCALHOST", "http://LOCALHOST", ""},
		{"http://host", "", "must begin with https://: by plain http anyone on the way could read the key"},
		{"https://u:hunter2@host", "", "must not hold a user or password: the key is all it needs"},
		{"https://host?a=hunter2", "", "must not have a query"},
		{"https://", "", "names no host"},
		{"ftp://host", "", "must begin with https://"},
		{"hunter2\x00", "", "is not a URL"},
	} {
		u, err := client.ParseBase("depot", "the key", tt.in)
		if tt.problem == "" && (err != nil || u.String() != tt.want) {
			t.Errorf("ParseBase(%q) = %v, %v", tt.in, u, err)
		}
		if tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("ParseBase(%q): %v, want %q", tt.in, err, tt.problem)
		}
	}
}

func TestDo(t *testing.T) {
	const token = "orange-mango-77"
	tests := []struct {
		name    string
		answers http.HandlerFunc
		is      error
		want    string // in the error, or the body
	}{
		{"the body is read", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(r.Header.Get("Authorization") + " " + r.Header.Get("User-Agent")))
		}, nil, "Bearer " + token + " batchfleet/7"},
		{"a refusal is an answer", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, nil, "no\n"},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				t.Error("it was followed")
			}
			http.Redirect(w, r, "/else", http.StatusFound)
		}, nil, `<a href="/else">`},
		{"a long answer is refused", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 101)) }, client.ErrTooLong, "it is longer than 100 bytes"},
		{"a cut connection is trouble", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, jobs.ErrUnavailable, "the depot cannot be reached: EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.answers)
			defer server.Close()
			c, base := clientOf(t, server.URL)
			a, err := c.Do(t.Context(), &client.Request{URL: base.URL, Token: token, Patience: time.Minute, Limit: 100})
			said := string(a.Text)
			if err != nil {
				said = err.Error()
			}
			if !errors.Is(err, tt.is) || !strings.Contains(said, tt.want) {
				t.Errorf("got %q, want %q, %v", said, tt.want, tt.is)
			}
		})
	}
}

func TestUnreachableShowsNoSecretAndHeedsTheCaller(t *testing.T) {
	c, base := clientOf(t, "http://127.0.0.1:1")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &client.Request{URL: base.URL, Token: "orange-mango-77", Secret: "plum"}
	trouble := errors.New("proxy says orange-mango-77 and plum")
	if err := c.Unreachable(ctx, ctx, r, trouble); err == nil || strings.Contains(err.Error(), "mango") || strings.Contains(err.Error(), "plum") || !errors.Is(err, trouble) {
		t.Errorf("got %v", err)
	}
	enough := errors.New("enough")
	cancel(enough)
	if err := c.Unreachable(ctx, ctx, r, trouble); err != enough { //nolint:errorlint // the cause itself
		t.Errorf("got %v, want %v", err, enough)
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "1e9": 0, "86400": client.MaxRetryAfter,
		"Mon, 02 Jan 2006 15:04:05 GMT": 0, "Mon, 02 Jan 2496 15:04:05 GMT": client.MaxRetryAfter,
	} {
		if got := client.RetryAfter(&http.Response{Header: http.Header{"Retry-After": {header}}}); got != want {
			t.Errorf("RetryAfter(%q) = %s, want %s", header, got, want)
		}
	}
}

// clientOf returns a client of the server at an address, and a request for its root.
func clientOf(t *testing.T, address string) (*client.Client, *client.Request) {
	t.Helper()
	base, err := client.ParseBase("depot", "the key", address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Base: base, Name: "the depot", Version: "7", Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, &client.Request{URL: base.JoinPath("/")}
}
