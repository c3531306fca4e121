package httpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"time"
)

// errInternal is what a caller is told of a panic.
var errInternal = errors.New("internal error")

// Handler answers a request, or returns an error and leaves the response to
// [API.WriteError]. An error after the response has begun closes the connection,
// so that the caller notices that it is incomplete.
type Handler func(w http.ResponseWriter, r *http.Request) error

// API routes requests to handlers and is an [http.Handler] itself. Log and
// WriteError are required. It may serve many requests at once, but all calls
// of Handle come before the first.
//
// Every response has an X-Request-Id, Cache-Control: no-store and
// X-Content-Type-Options: nosniff; a handler may set the first two again. A
// writer handed to a handler has its optional methods (flush, deadlines) behind
// [http.ResponseController].
type API struct {
	// Log gets one line for each response of 500 and more, and nothing else.
	Log *slog.Logger
	// WriteError writes status and body of a response that reports err, which
	// always has a [StatusError] in it; its header is set already. The status is
	// 400 for a [BodyError], 413 for an [http.MaxBytesError], and 500 for any other
	// error. WriteError gives an API's own errors their status. The text of an error
	// that stays 500 must not be shown to the caller.
	WriteError func(w http.ResponseWriter, r *http.Request, status int, err error)
	// Admit, when set, may refuse a request before it is routed; see
	// [SecureOnly].
	Admit func(r *http.Request) error
	// Done, when set, is told of each response, also of one that was cut off.
	// r.Pattern is the route that it came from, empty for none.
	Done func(r *http.Request, status int, took time.Duration)

	mux http.ServeMux
}

// Handle registers h for a pattern of [http.ServeMux], and panics like it.
// HEAD comes with GET, and OPTIONS is answered with Allow where no pattern
// names it.
func (a *API) Handle(pattern string, h Handler) { a.mux.Handle(pattern, route{a, h}) }

// ServeHTTP routes the request. Nothing is redirected: a path that is not the
// route's own spelling is an unknown route.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := requestID(r)
	r = r.WithContext(context.WithValue(traced(r), requestIDKey{}, id)) //nolint:contextcheck // traced begins with the request's
	standard(w.Header(), id)
	if a.Admit != nil {
		if err := a.Admit(r); err != nil {
			a.run(w, r, fail(err))
			return
		}
	}
	if !plainPath(r.URL) {
		a.run(w, r, fail(&StatusError{Status: http.StatusNotFound, Err: errPath}))
		return
	}
	m := &muxWriter{to: w}
	a.mux.ServeHTTP(m, r) // sets the path values and calls a route, or answers by itself
	if !m.routed {
		a.run(w, r, m.handler(r.Method))
	}
}

// standard sets the header of every response.
func standard(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// route is a registered handler, as opposed to those that [http.ServeMux] makes.
type route struct {
	api *API
	h   Handler
}

func (rt route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m, ok := w.(*muxWriter); ok {
		m.routed, w = true, m.to
	}
	rt.api.run(w, r, rt.h)
}

// run calls h and is the only place that turns errors into responses and logs
// them.
func (a *API) run(w http.ResponseWriter, r *http.Request, h Handler) {
	began := time.Now()
	resp := &responseWriter{ResponseWriter: w}
	if a.Done != nil {
		defer func() { a.Done(r, cmp.Or(resp.status, http.StatusOK), time.Since(began)) }()
	}
	err := call(h, resp, r)
	if err != nil && resp.status == 0 {
		forget(w.Header())
		standard(w.Header(), RequestID(r.Context()))
		a.writeError(resp, r, err)
		a.log(r, resp.status, began, err)
		return
	}
	if err != nil {
		a.log(r, http.StatusInternalServerError, began, fmt.Errorf("after the answer had begun: %w", err))
		panic(http.ErrAbortHandler)
	}
	a.log(r, resp.status, began, nil)
}

// forget deletes the header fields of a response that is not sent. Connection stays:
// [Server] may have to close it.
func forget(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool { return name != "Connection" })
}

func (a *API) writeError(resp *responseWriter, r *http.Request, err error) {
	if _, ok := errors.AsType[*panicError](err); ok {
		err = errInternal
	}
	status := known(r, err)
	maps.Copy(resp.Header(), status.Header)
	if _, ok := errors.AsType[*StatusError](err); !ok {
		err = status
	}
	a.WriteError(resp, r, status.Status, err)
	if resp.status == 0 { // net/http would say 200
		resp.WriteHeader(status.Status)
	}
}

func (a *API) log(r *http.Request, status int, began time.Time, err error) {
	if status < http.StatusInternalServerError {
		return
	}
	level := slog.LevelError
	if status == http.StatusServiceUnavailable { // the caller comes again
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request_id", RequestID(r.Context())),
		slog.String("method", r.Method), slog.String("route", r.Pattern),
		slog.Int("status", status), slog.Duration("took", time.Since(began)),
	}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	a.Log.LogAttrs(r.Context(), level, "request failed", attrs...)
}

// panicError is a panic of a handler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprint("panic: ", e.value) }

func call(h Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			panic(v)
		default:
			err = &panicError{v, debug.Stack()}
		}
	}()
	return h(w, r)
}

// responseWriter remembers the status that was sent; 0 means that none was.
type responseWriter struct {
	http.ResponseWriter
	status int
}

func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 { // 1xx comes before the response
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom: the system can send a file without copying it.
func (w *responseWriter) ReadFrom(src io.Reader) (int64, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return io.Copy(w.ResponseWriter, src)
}

// Unwrap is for [http.ResponseController].
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
