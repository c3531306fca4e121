package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// caller asks the Job API in the name of a visitor.
type caller struct {
	api     http.Handler
	visitor *http.Request
	token   string // empty for none
	limited bool   // the token is the dashboard's own: nothing is to be changed with it
}

const (
	// patience is for one call; those that change something may wait for a worker.
	patience = 20 * time.Second
	// maxAnswer bounds an answer, in bytes: 200 whole jobs.
	maxAnswer = 64 << 20
)

// get asks for v, which is read from JSON. The error may be a [jobapi.Refusal].
func (c *caller) get(path string, query url.Values, v any) error {
	return c.json(c.request(c.visitor.Context(), http.MethodGet, path, query, nil), v)
}

// post sends body as JSON, and reads the answer into v unless that is nil.
func (c *caller) post(path string, body, v any, header ...string) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("post %s: %w", path, err)
	}
	r := c.request(c.visitor.Context(), http.MethodPost, path, nil, text)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return c.json(r, v)
}

var errOwnToken = &jobapi.Refusal{Status: http.StatusForbidden, Code: jobapi.CodeReadOnly, Message: "This dashboard only shows things: log in with a token of your own to change them"}

// request returns a request of the visitor: from the same address, with the same header but for what belongs to one page.
func (c *caller) request(ctx context.Context, method, path string, query url.Values, body []byte) *http.Request {
	r := c.visitor.Clone(ctx)
	r.Method, r.Pattern, r.RequestURI = method, "", ""
	r.URL = &url.URL{Path: "/api/v1/" + path, RawQuery: query.Encode()}
	if plain, err := url.PathUnescape(r.URL.Path); err == nil && plain != r.URL.Path {
		r.URL.Path, r.URL.RawPath = plain, r.URL.Path
	}
	for name := range r.Header {
		switch {
		case name == "Cookie", name == "Accept", name == "Range", name == "Te", name == "Trailer", name == "Upgrade", name == "Expect", name == "Last-Event-Id", name == "X-Part", name == "Refresh",
			strings.HasPrefix(name, "If-"), strings.HasPrefix(name, "Content-"), strings.HasPrefix(name, "Accept-"):
			r.Header.Del(name)
		}
	}
	c.authorize(r)
	r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = http.NoBody, 0, nil, nil
	r.Form, r.PostForm, r.MultipartForm = nil, nil, nil
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Body, r.ContentLength = readCloser{bytes.NewReader(body)}, int64(len(body))
	}
	return r
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// authorize gives a request the visitor's token.
func (c *caller) authorize(r *http.Request) {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
}

func (c *caller) json(r *http.Request, v any) error {
	answer, err := c.do(r)
	if err != nil {
		return err
	}
	if answer.status >= 300 {
		return answer.refusal(r)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(answer.body.Bytes(), v); err != nil {
		return fmt.Errorf("read the answer of %s: %w", r.URL.Path, err)
	}
	return nil
}

// do calls the API, at most for [patience].
func (c *caller) do(r *http.Request) (*answer, error) { return c.call(r, patience, nil) }

// call calls the API. Deadlines that it sets are those of the visitor's connection, if that is given.
func (c *caller) call(r *http.Request, patience time.Duration, conn http.ResponseWriter) (a *answer, err error) {
	if c.limited && r.Method != http.MethodGet {
		return nil, errOwnToken
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	a = &answer{header: http.Header{}, conn: conn}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			err = fmt.Errorf("%w: the answer of %s was cut off", jobs.ErrUnavailable, r.URL.Path)
		default:
			panic(p)
		}
	}()
	c.api.ServeHTTP(a, r.WithContext(ctx))
	if a.tooLong {
		return nil, fmt.Errorf("the answer of %s is longer than %d bytes", r.URL.Path, maxAnswer)
	}
	return a, nil
}

// answer is an [http.ResponseWriter] that keeps what the API writes.
type answer struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	tooLong bool
	conn    http.ResponseWriter // whose deadlines are set; nil for none
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

var errTooLong = errors.New("the answer is too long")

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(p) > maxAnswer {
		a.tooLong = true
		return 0, errTooLong
	}
	return a.body.Write(p)
}

// SetReadDeadline is for [http.ResponseController].
func (a *answer) SetReadDeadline(t time.Time) error {
	if a.conn == nil {
		return nil
	}
	return http.NewResponseController(a.conn).SetReadDeadline(t)
}

// SetWriteDeadline is for [http.ResponseController].
func (a *answer) SetWriteDeadline(t time.Time) error {
	if a.conn == nil {
		return nil
	}
	return http.NewResponseController(a.conn).SetWriteDeadline(t)
}

// Flush does nothing.
func (a *answer) Flush() {}

// refusal returns the error of an answer.
func (a *answer) refusal(r *http.Request) error {
	var e struct{ Error jobapi.Error }
	if json.Unmarshal(a.body.Bytes(), &e) != nil || e.Error.Message == "" {
		e.Error.Message = fmt.Sprintf("the Job API has answered %s with status %d", r.URL.Path, a.status)
	}
	return &jobapi.Refusal{Status: a.status, Code: e.Error.Code, Message: e.Error.Message, Details: e.Error.Details}
}

// statusOf returns the status of an error of the API; 0 if it is none.
func statusOf(err error) int {
	if e, ok := errors.AsType[*jobapi.Refusal](err); ok {
		return e.Status
	}
	return 0
}

// missing reports whether there is no such thing, or no such route.
func missing(err error) bool {
	s := statusOf(err)
	return s == http.StatusNotFound || s == http.StatusMethodNotAllowed
}

// pathOf joins segments of a path, each of them escaped.
func pathOf(segments ...string) string {
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

func refusalOf(err error) (*jobapi.Refusal, bool) { return errors.AsType[*jobapi.Refusal](err) }

// unavailable reports whether the API cannot answer now.
func unavailable(err error) bool { return statusOf(err) == http.StatusServiceUnavailable }
