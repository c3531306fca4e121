package httpd_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batchfleet/batchfleet/httpd"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func TestF64HealthAndReadiness(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's own listener
	if err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		health := httpd.Health(func() error {
			if down.Load() {
				return errors.New("redis: connection refused")
			}
			return nil
		})
		served <- (&httpd.Server{Handler: health, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l)
	}()
	url := "http://" + l.Addr().String()
	if code, body := get(t, url+"/readyz"); code != 200 || body != "ready" {
		t.Errorf("/readyz while all is well: %d %q", code, body)
	}
	down.Store(true)
	if code, body := get(t, url+"/readyz"); code != 503 || body != "redis: connection refused" {
		t.Errorf("/readyz while redis is away: %d %q, want 503 and the reason", code, body)
	}
	if code, _ := get(t, url+"/healthz"); code != 200 {
		t.Errorf("/healthz while redis is away: %d, want 200: a restart would not help", code)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v after its context ended, want nil", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil { //nolint:noctx // refused at once
		t.Error("the server still listens after Serve has returned")
	}
}
