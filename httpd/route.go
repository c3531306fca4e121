package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrNoRoute is the error, of status 404, for a path that no route has.
var ErrNoRoute = errors.New("no such route")

var (
	errNoMethod = errors.New("method not allowed")
	errPath     = errors.New("no such route: a path has no empty, . or .. segments and no encoded slash, backslash or control character")
)

func fail(err error) Handler {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

// plainPath reports whether the path has no segment with another meaning than its
// text. [http.ServeMux] matches segments before it decodes them, so a handler would
// get "../x" for "..%2Fx" and might use it as a name.
func plainPath(u *url.URL) bool {
	if u.Path == "" || u.Path[0] != '/' || !utf8.ValidString(u.Path) ||
		strings.ContainsFunc(u.Path, unicode.IsControl) || strings.Contains(u.Path, `\`) {
		return false
	}
	if u.RawPath != "" && strings.Count(u.RawPath, "/") != strings.Count(u.Path, "/") {
		return false // one was encoded
	}
	segments := strings.Split(u.Path[1:], "/")
	for i, s := range segments {
		if s == "." || s == ".." || s == "" && i < len(segments)-1 {
			return false
		}
	}
	return true
}

// muxWriter is the writer that [http.ServeMux] gets. A route unwraps it. What the mux
// writes itself, text and HTML, is dropped; handler answers in its place.
type muxWriter struct {
	to     http.ResponseWriter
	routed bool
	header http.Header
	status int
}

func (m *muxWriter) Header() http.Header {
	if m.header == nil {
		m.header = http.Header{}
	}
	return m.header
}
func (m *muxWriter) Write(p []byte) (int, error) { return len(p), nil }
func (m *muxWriter) WriteHeader(status int)      { m.status = status }

// handler returns the handler for a request that no route has served.
func (m *muxWriter) handler(method string) Handler {
	if m.status != http.StatusMethodNotAllowed { // 404, or a redirect
		return fail(&StatusError{Status: http.StatusNotFound, Err: ErrNoRoute})
	}
	allow := m.Header().Get("Allow")
	if !strings.Contains(allow, http.MethodOptions) {
		allow += ", " + http.MethodOptions
	}
	if method == http.MethodOptions {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Allow", allow)
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	return fail(&StatusError{http.StatusMethodNotAllowed, http.Header{"Allow": {allow}}, fmt.Errorf("%w: this route has %s", errNoMethod, allow)})
}
