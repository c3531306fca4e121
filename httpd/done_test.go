package httpd_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
)

func TestDoneIsToldOfEveryAnswer(t *testing.T) {
	var told []string
	api := &httpd.API{
		Log:        slog.New(slog.DiscardHandler),
		WriteError: func(w http.ResponseWriter, _ *http.Request, status int, _ error) { w.WriteHeader(status) },
		Done: func(r *http.Request, status int, _ time.Duration) {
			told = append(told, fmt.Sprintf("%s=%d", r.Pattern, status))
		},
	}
	api.Handle("GET /ok", func(http.ResponseWriter, *http.Request) error { return nil })
	api.Handle("GET /bad", func(http.ResponseWriter, *http.Request) error { return errors.New("no") })
	api.Handle("GET /cut", func(w http.ResponseWriter, _ *http.Request) error {
		_, _ = w.Write([]byte("part"))
		panic("after the answer had begun")
	})
	for _, path := range []string{"/ok", "/bad", "/cut", "/none"} {
		func() {
			defer func() { _ = recover() }()
			api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		}()
	}
	if got, want := strings.Join(told, " "), "GET /ok=200 GET /bad=500 GET /cut=200 =404"; got != want {
		t.Errorf("told of %s, want %s", got, want)
	}
}
