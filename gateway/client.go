package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

// Client speaks to a control plane over HTTP. It implements [ControlPlane]. Its
// methods may be called concurrently.
type Client struct {
	base    *url.URL
	http    *http.Client
	idle    *http.Transport
	agent   string
	tokens  *TokenFile
	timeout time.Duration
}

// ClientConfig says where a control plane is and how to get there.
type ClientConfig struct {
	// URL is its address, which may have a path: https, or http to this machine.
	URL string
	// CAFile holds certificates in PEM that are trusted besides the system's;
	// empty for none.
	CAFile string
	// Tokens holds the worker's token. Nil for a worker that has none yet.
	Tokens *TokenFile
	// Connections is how many are kept open between calls, 8 when 0: one for
	// each slot of a worker, and some for its heartbeats and results.
	Connections int
	// Version of the program, for the User-Agent.
	Version string
	// Proxy chooses a proxy for a request; [http.ProxyFromEnvironment] when nil.
	Proxy func(*http.Request) (*url.URL, error)
	// Timeout is what a call may take beyond the time that it asks the control
	// plane to wait and that its body needs on the way; 15 s when 0.
	Timeout time.Duration
}

// NewClient returns a client. It makes no call. The error wraps [ErrCAFile] when
// that file is at fault, and [ErrOtherGateway] when the token belongs elsewhere.
func NewClient(cfg ClientConfig) (*Client, error) {
	base, err := parseBase(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Tokens != nil {
		if err := cfg.Tokens.Token().mayGoTo(base); err != nil {
			return nil, err
		}
	}
	roots, err := trusted(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	transport := httpd.NewTransport(cfg.Proxy, roots, cmp.Or(cfg.Connections, 8))
	return &Client{
		base: base, idle: transport, tokens: cfg.Tokens, timeout: cmp.Or(cfg.Timeout, 15*time.Second),
		agent: "batchfleet/" + cmp.Or(cfg.Version, "unknown"),
		http:  &http.Client{Transport: transport, CheckRedirect: httpd.StayHere},
	}, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.idle.CloseIdleConnections() }

// parseBase checks the address of a control plane.
func parseBase(s string) (*url.URL, error) {
	return httpd.ParseBase("gateway", "the worker's token", s)
}

// ErrCAFile marks what is wrong with a file of certificates.
var ErrCAFile = errors.New("read CA file")

// trusted returns the system's certificates and those in file.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // the system's, to package tls
	}
	pem, err := safefile.ReadLinked(file, httpd.MaxPEM)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCAFile, err)
	}
	roots, err := httpd.TrustedCAs(pem)
	if err != nil {
		return nil, fmt.Errorf("%w: %s holds %w", ErrCAFile, file, err)
	}
	return roots, nil
}

// Lease implements [ControlPlane].
func (c *Client) Lease(ctx context.Context, ask LeaseAsk) (*LeaseAnswer, error) {
	var a LeaseAnswer
	wait := time.Duration(ask.WaitSeconds * float64(time.Second))
	none, err := c.call(ctx, call{path: PathLease, ask: ask, answer: &a, wait: wait, limit: MaxPayload + MaxSmallBody, again: true, empty: true})
	if err == nil && !none {
		err = a.check()
	}
	if err != nil {
		return nil, fmt.Errorf("lease a job: %w", err)
	}
	if none {
		return nil, nil //nolint:nilnil // there is no job, says ControlPlane
	}
	return &a, nil
}

// Heartbeat implements [ControlPlane].
func (c *Client) Heartbeat(ctx context.Context, id string, ask HeartbeatAsk) (HeartbeatAnswer, error) {
	var a HeartbeatAnswer
	wait := time.Duration(ask.WaitSeconds * float64(time.Second))
	_, err := c.call(ctx, call{path: jobPath(PathHeartbeat, id), ask: ask, answer: &a, wait: wait, again: true})
	if err == nil {
		err = a.check(ask.LeaseID)
	}
	if err != nil {
		return HeartbeatAnswer{}, fmt.Errorf("extend the lease on job %s: %w", id, err)
	}
	return a, nil
}

// Result implements [ControlPlane].
func (c *Client) Result(ctx context.Context, id string, ask ResultAsk) (ReportAnswer, error) {
	var a ReportAnswer
	_, err := c.call(ctx, call{path: jobPath(PathResult, id), ask: ask, answer: &a, again: true})
	if err == nil && !a.OK {
		err = strange("it does not say ok")
	}
	if err != nil {
		return ReportAnswer{}, fmt.Errorf("deliver the result of job %s: %w", id, err)
	}
	return a, nil
}

// Failed implements [ControlPlane].
func (c *Client) Failed(ctx context.Context, id string, ask FailedAsk) (FailedAnswer, error) {
	var a FailedAnswer
	_, err := c.call(ctx, call{path: jobPath(PathFailed, id), ask: ask, answer: &a, again: true})
	if err == nil && !a.OK {
		err = strange("it does not say ok")
	}
	if err != nil {
		return FailedAnswer{}, fmt.Errorf("report that job %s has failed: %w", id, err)
	}
	return a, nil
}

// noJob is the id of a job that there never is: a ULID of the year 1970.
const noJob = "00000000000000000000000000"

// Check returns nil if there is a gateway which takes the client's token. It
// changes nothing there. The error of a gateway wraps [*Error].
func (c *Client) Check(ctx context.Context) error {
	_, err := c.call(ctx, call{path: jobPath(PathHeartbeat, noJob), ask: HeartbeatAsk{LeaseID: "none"}, answer: &HeartbeatAnswer{}, again: true})
	// A token is judged before the job it is used for.
	if e := (*Error)(nil); errors.As(err, &e) && (e.Code == JobNotFound || e.Code == LeaseLost) {
		return nil
	}
	if err == nil {
		err = strange("it knows a job that cannot be")
	}
	return fmt.Errorf("check gateway: %w", err)
}

// register asks for a token. It is not repeated by itself: an enroll token is
// good once.
func (c *Client) register(ctx context.Context, ask RegisterAsk) (RegisterAnswer, error) {
	var a RegisterAnswer
	_, err := c.call(ctx, call{path: PathRegister, ask: ask, answer: &a, secret: ask.Token})
	if err == nil {
		err = a.check()
	}
	if err != nil {
		return RegisterAnswer{}, fmt.Errorf("register worker: %w", err)
	}
	return a, nil
}

func jobPath(route, id string) string { return strings.Replace(route, "{id}", url.PathEscape(id), 1) }

// call is one call of the protocol.
type call struct {
	path   string
	ask    any
	answer any
	wait   time.Duration // that the control plane may take of its own
	limit  int64         // bytes of the answer; MaxSmallBody when 0
	again  bool          // the transport may repeat it
	empty  bool          // the answer may be 204
	secret string        // what no error may show, besides the token
}

// upload is what a connection is thought to carry at the least, in bytes a second;
// a gateway waits for no slower one.
const upload = 32 << 10

// call makes a call. It reports whether the answer was 204.
func (c *Client) call(ctx context.Context, what call) (none bool, err error) {
	body, err := encode(what.ask)
	if err != nil {
		return false, err
	}
	for tries := 1; ; tries++ {
		token := c.token()
		none, err = c.try(ctx, what, token, body)
		if err == nil {
			return none, nil
		}
		// Only a token that was refused can have been replaced meanwhile, in
		// memory or by somebody who has put another file there.
		if e := (*Error)(nil); tries == 1 && errors.As(err, &e) && e.unauthorized() && c.tokens != nil && c.tokens.other(token, c.base) {
			continue
		}
		return false, hide(err, token, what.secret)
	}
}

func (c *Client) token() string {
	if c.tokens == nil {
		return ""
	}
	return c.tokens.Token().Token
}

// try makes a call once.
func (c *Client) try(ctx context.Context, what call, token string, body []byte) (none bool, err error) {
	patience := c.timeout + what.wait + time.Duration(len(body))*time.Second/upload
	limited, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience.Round(time.Millisecond)))
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, c.base.JoinPath(what.path).String(), bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.agent)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if what.again {
		// Not sent: it tells package http that it may repeat the request when a
		// connection that was kept open turns out to be closed.
		req.Header["X-Idempotency-Key"] = nil
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, unreachable(ctx, limited, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	limit := what.limit
	if limit == 0 {
		limit = MaxSmallBody
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return false, unreachable(ctx, limited, fmt.Errorf("read the answer (status %d): %w", resp.StatusCode, err))
	}
	if int64(len(text)) > limit {
		return false, strange("it is longer than " + strconv.FormatInt(limit, 10) + " bytes")
	}
	return read(resp, text, what)
}

// unreachable says why there is no answer: because the caller does not want it
// any more, or because of trouble on the way.
func unreachable(ctx, limited context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // its URL says nothing new
	}
	if strange := (x509.UnknownAuthorityError{}); errors.As(err, &strange) {
		err = fmt.Errorf("%w; if the gateway's certificate is your own, give it with GATEWAY_CA_FILE (register: --ca-file)", err)
	}
	return fmt.Errorf("%w: the gateway cannot be reached: %w", jobs.ErrUnavailable, err)
}

// encode writes a body without the escapes that are for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// hide returns err, without secrets in its text.
func hide(err error, secrets ...string) error {
	text := err.Error()
	clean := text
	for _, s := range secrets {
		if s != "" {
			clean = strings.ReplaceAll(clean, s, "[redacted]")
		}
	}
	if clean = redact(clean); clean == text {
		return err
	}
	return &hidden{text: clean, err: err}
}

// hidden is an error whose own text must not be shown.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }
