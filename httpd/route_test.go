package httpd

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func FuzzPathsAreWhatTheyLookLike(f *testing.F) {
	for _, seed := range []string{"/a", "/a/../b", "/%2e%2e/x", "/a%2fb", "//a", "/a/", "*", "http://h/a%5Cb", "/%00", "/b/c/..%2f", "/b/%ff", "/.%2e"} {
		f.Add(seed)
	}
	var got []string
	api := &API{
		Log:        slog.New(slog.DiscardHandler),
		WriteError: func(w http.ResponseWriter, _ *http.Request, status int, _ error) { w.WriteHeader(status) },
	}
	api.Handle("GET /{one}", func(_ http.ResponseWriter, r *http.Request) error {
		got = []string{r.PathValue("one")}
		return nil
	})
	api.Handle("GET /b/{rest...}", func(_ http.ResponseWriter, r *http.Request) error {
		got = strings.Split(r.PathValue("rest"), "/")
		return nil
	})
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL, got = u, nil
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusNotFound || w.Header().Get("Location") != "" {
			t.Errorf("%q: answered %d %v", target, w.Code, w.Header())
		}
		for i, s := range got {
			if s == "." || s == ".." || s == "" && i < len(got)-1 || strings.ContainsAny(s, "/\\\x00\n\r") {
				t.Errorf("%q: a handler got the segment %q", target, s)
			}
		}
	})
}
