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

// plainPath reports whether every segment of the path stands for itself.
// [http.ServeMux] matches segments first and decodes them then, so a handler
// would get the value "../x" for "..%2Fx" and might take it for a name.
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

// verdict is the writer that [http.ServeMux] gets. A route takes the writer
// behind it; what the mux says itself, which is text and HTML, is kept from the
// caller but for its meaning.
type verdict struct {
	to     http.ResponseWriter
	routed bool
	header http.Header
	status int
}

func (v *verdict) Header() http.Header {
	if v.header == nil {
		v.header = http.Header{}
	}
	return v.header
}
func (v *verdict) Write(p []byte) (int, error) { return len(p), nil }
func (v *verdict) WriteHeader(status int)      { v.status = status }

// handler returns what answers a request that is not for a route.
func (v *verdict) handler(method string) Handler {
	if v.status != http.StatusMethodNotAllowed { // 404, or a redirect
		return fail(&StatusError{Status: http.StatusNotFound, Err: ErrNoRoute})
	}
	allow := v.Header().Get("Allow")
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
