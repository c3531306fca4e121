// Package client is an HTTP client of one server. It sends its token to that server
// only, bounds the time and the size of a response, and returns errors without secrets.
//
// It knows no contract: callers decide what a response means and whether to retry, for
// which there is package retry.
package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Config is where a server is and how to connect to it.
type Config struct {
	Base        *url.URL // see [ParseBase]
	Name        string   // what errors call the server; Base when empty
	CAFile      string   // certificates in PEM that are trusted in addition to the system's; empty for none
	Version     string   // of the program, for the User-Agent
	Connections int      // how many are kept open between calls
	// Proxy chooses a proxy for a request; [http.ProxyFromEnvironment] when nil.
	Proxy func(*http.Request) (*url.URL, error)
}

// Client is a client of one server. Its methods may be called concurrently.
type Client struct {
	// Transport may be changed before the first call.
	Transport *http.Transport

	base        *url.URL
	name, agent string
	http        *http.Client
}

// New returns a client. It makes no call. The error wraps [ErrCAFile].
func New(cfg Config) (*Client, error) {
	roots, err := trusted(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	transport := newTransport(cfg.Proxy, roots, cfg.Connections)
	return &Client{
		Transport: transport, base: cfg.Base, name: cmp.Or(cfg.Name, cfg.Base.String()), agent: "batchfleet/" + cmp.Or(cfg.Version, "unknown"),
		http: &http.Client{Transport: transport, CheckRedirect: noRedirects},
	}, nil
}

// Base returns the server's address, which must not be changed.
func (c *Client) Base() *url.URL { return c.base }

// Close closes the connections that are not in use.
func (c *Client) Close() { c.Transport.CloseIdleConnections() }

// Request is a call of a server.
type Request struct {
	Method string // GET when empty
	URL    *url.URL
	Header http.Header // in addition to those that follow from the fields below
	Accept string
	Body   []byte // none when empty; JSON unless Header has another Content-Type
	// Content is sent in place of Body, as it is read and once only: Size bytes, or all there is if Size is -1. The server
	// may refuse the request before any of it is sent.
	Content io.Reader
	Size    int64
	Token   string // sent as a bearer token; no error shows it
	Secret  string // something else that no error shows
	// Patience is how long the response may take, and Limit how many bytes it may have.
	// Open ignores both.
	Patience time.Duration
	Limit    int64
	// Idempotent lets the transport repeat the call when a connection that was kept
	// open turns out to be closed. It does that for a GET, anyway.
	Idempotent bool
}

// Response is a response that was read.
type Response struct {
	Head *http.Response // its body is closed
	Text []byte
}

// ErrTooLong means that a response is longer than its limit.
var ErrTooLong = errors.New("it is longer")

// Do makes a call and returns the response. When there is none,
// the error is the cause of ctx, or it wraps [jobs.ErrUnavailable] or [ErrTooLong].
func (c *Client) Do(ctx context.Context, r *Request) (Response, error) {
	limited, cancel := context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("no answer within %s", r.Patience.Round(time.Millisecond)))
	defer cancel()
	resp, err := c.Open(limited, r)
	if err != nil {
		return Response{}, c.Unreachable(ctx, limited, r, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, r.Limit+1))
	switch {
	case err != nil:
		return Response{}, c.Unreachable(ctx, limited, r, fmt.Errorf("read the answer (status %d): %w", resp.StatusCode, err))
	case int64(len(text)) > r.Limit:
		return Response{}, fmt.Errorf("%w than %d bytes", ErrTooLong, r.Limit)
	}
	return Response{resp, text}, nil
}

// Open makes a call and returns the response, its body unread: the caller reads and
// closes it, and bounds its time and size. Errors are for [Client.Unreachable].
func (c *Client) Open(ctx context.Context, r *Request) (*http.Response, error) {
	body := r.Content
	if body == nil && len(r.Body) > 0 {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, http.MethodGet), r.URL.String(), body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.Header)
	if r.Content != nil {
		req.ContentLength = r.Size
		if r.Size == 0 {
			req.Body = http.NoBody
		}
		req.Header.Set("Expect", "100-continue")
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", r.Accept)
	req.Header.Set("User-Agent", c.agent)
	if r.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	if r.Idempotent {
		req.Header["X-Idempotency-Key"] = nil // not sent: net/http only checks that it is set
	}
	return c.http.Do(req)
}

// Unreachable returns why there is no response to r: the cause of ctx, the caller's
// context, if it has ended. Otherwise the call has failed or limited has ended, and
// the error wraps [jobs.ErrUnavailable].
func (c *Client) Unreachable(ctx, limited context.Context, r *Request, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without its URL, which callers know
	}
	return fmt.Errorf("%w: %s cannot be reached: %w", jobs.ErrUnavailable, c.name, Hide(err, r.Token, r.Secret))
}
