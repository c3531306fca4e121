// Package httpd serves HTTP for the packages that have a handler but never
// listen themselves.
package httpd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// shutdownGrace is how long requests in hand may take once the server stops.
const shutdownGrace = 5 * time.Second

// Serve answers requests on l with h until ctx ends, then lets those in hand
// finish and returns nil. Slow clients are cut off: headers must arrive within
// 10 s and a request within a minute.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		stopped <- srv.Shutdown(grace)
	})
	err := srv.Serve(l)
	if stop() {
		return fmt.Errorf("serve http on %s: %w", l.Addr(), err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop http on %s: %w", l.Addr(), err)
	}
	return nil
}

// Health returns a handler for /healthz, which says that the process lives, and
// /readyz, which says 503 and why while ready returns an error.
func Health(ready func() error) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, "ready")
	})
	return mux
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text) // a client that has gone needs no answer
}
