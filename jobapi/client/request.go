package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	httpclient "github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/retry"
)

// request is a call of the API.
type request struct {
	method string   // GET when empty
	path   []string // below /api/v1; each part is escaped
	// elsewhere is the path of another route, with its query, instead of path.
	elsewhere  string
	repeatable bool // although it changes something
	query      url.Values
	header     http.Header
	body       json.RawMessage
	media      string        // of the response; asJSON when empty
	status     int           // of the response; any below 300 when 0
	wait       time.Duration // how long the server may wait before it answers
}

// json makes a call and reads one JSON value. Unknown fields are ignored: the server
// may be newer.
func (c *Client) json(ctx context.Context, r *request, into any) error {
	a, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(a))
	if err := d.Decode(into); err != nil {
		return errBadResponse(fmt.Sprintf("%s, beginning %s", redact.Text(err.Error()), httpclient.Quote(a)))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errBadResponse("there is more than one JSON value, beginning " + httpclient.Quote(a))
	}
	return nil
}

// do makes a call and reads its response. A call that only reads is retried.
func (c *Client) do(ctx context.Context, r *request) (body []byte, err error) {
	if r.method != "" && r.method != http.MethodGet && !r.repeatable {
		return c.once(ctx, r)
	}
	policy := readRetry
	policy.For = c.retryFor
	policy.Retrying = func(err error, _ time.Duration) { c.retrying(err) }
	refusedBefore := false // nothing listened at the address
	err = policy.Do(ctx, func() (err error) {
		body, err = c.once(ctx, r)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, jobs.ErrUnavailable), isFinal(err):
			return retry.Permanent(err)
		case !errors.Is(err, syscall.ECONNREFUSED):
			if refused, ok := errors.AsType[*jobapi.Refusal](err); ok {
				return retry.After(err, refused.RetryAfter)
			}
			return err
		case refusedBefore:
			return retry.Permanent(err)
		}
		refusedBefore = true
		return retry.After(err, time.Second)
	})
	return body, err
}

// errFinal is wrapped by an error that stays as it is until somebody changes a setting.
var errFinal = errors.New("a setting is wrong")

// isFinal reports whether a call would fail again in the same way, although no server has
// decided on it.
func isFinal(err error) bool {
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return true
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return certificate || record || alert || errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, errFinal)
}

// readRetry is the policy of calls that only read.
var readRetry = retry.Policy{First: 200 * time.Millisecond, Max: 7500 * time.Millisecond, Factor: 1.5}

// once makes a call and reads its response.
func (c *Client) once(ctx context.Context, r *request) ([]byte, error) {
	call, err := c.request(r)
	if err != nil {
		return nil, err
	}
	a, err := c.http.Do(ctx, call)
	switch {
	case errors.Is(err, httpclient.ErrTooLong):
		return nil, errBadResponse(err.Error())
	case err != nil:
		return nil, err
	}
	if err := r.check(a.Head, a.Text); err != nil {
		return nil, c.hide(err)
	}
	return a.Text, nil
}

// request returns what a call sends.
func (c *Client) request(r *request) (*httpclient.Request, error) {
	u := c.http.Base().JoinPath("api", "v1")
	for _, part := range r.path {
		if part == "" || part == "." || part == ".." {
			return nil, fmt.Errorf("%.40q cannot be a part of a path", part)
		}
		u = u.JoinPath(url.PathEscape(part))
	}
	u.RawQuery = r.query.Encode()
	if r.elsewhere != "" {
		path, query, _ := strings.Cut(r.elsewhere, "?")
		u = c.http.Base().JoinPath(path)
		u.RawQuery = query
	}
	return &httpclient.Request{
		Method: r.method, URL: u, Header: r.header, Body: r.body, Token: c.token, Patience: c.timeout + r.wait, Limit: maxResponse,
		Accept: cmp.Or(r.media, asJSON) + ", " + asJSON + ";q=0.5", // errors are JSON
	}, nil
}

// hide returns err, without the client's token in its text.
func (c *Client) hide(err error) error {
	if c.token == "" || !strings.Contains(err.Error(), c.token) {
		return err
	}
	if refused, ok := errors.AsType[*jobapi.Refusal](err); ok {
		refused.Message, refused.Details = strings.ReplaceAll(refused.Message, c.token, redact.Mark), nil
		return err
	}
	return httpclient.Hide(err, c.token)
}
