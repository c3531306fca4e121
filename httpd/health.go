package httpd

import (
	"fmt"
	"net/http"
)

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
