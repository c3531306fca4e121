package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/httpd/client"
)

// Client speaks to a control plane over HTTP. It implements [BatchPlane]. Its
// methods may be called concurrently.
type Client struct {
	http    *client.Client
	tokens  *TokenFile
	timeout time.Duration // beyond the time that a call asks the control plane to wait and that its body needs on the way

	batches batches
}

// ClientConfig is where a control plane is and how to connect to it.
type ClientConfig struct {
	// URL is its address, which may have a path: https, or http to this machine.
	URL string
	// CAFile holds certificates in PEM that are trusted in addition to the system's;
	// empty for none.
	CAFile string
	// Tokens holds the worker's token. Nil for a worker that has none yet.
	Tokens *TokenFile
	// Connections is how many are kept open between calls, 8 when 0: one for
	// each slot of a worker, and some for its heartbeats and results.
	Connections int
	// Version of the program, for the User-Agent.
	Version string
	// Dial opens a connection, as [http.Transport] has it; nil for one over the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
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
	c, err := client.New(client.Config{
		Base: base, Name: "the gateway", CAFile: cfg.CAFile, Version: cfg.Version, Connections: cmp.Or(cfg.Connections, 8),
	})
	if err != nil {
		return nil, err
	}
	if cfg.Dial != nil {
		c.Transport.DialContext = cfg.Dial
	}
	return &Client{http: c, tokens: cfg.Tokens, timeout: 15 * time.Second}, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.Close() }

// parseBase checks the address of a control plane.
func parseBase(s string) (*url.URL, error) {
	return client.ParseBase("gateway", "the worker's token", s)
}

// ErrCAFile marks what is wrong with a file of certificates.
var ErrCAFile = client.ErrCAFile

// Lease implements [ControlPlane].
func (c *Client) Lease(ctx context.Context, request wire.LeaseRequest) (*wire.LeaseResponse, error) {
	var a wire.LeaseResponse
	none, err := c.call(ctx, call{path: kindPath(request.Kind, wire.PathLease), request: request, response: &a, wait: waitOf(request.WaitSeconds), limit: wire.MaxPayload + wire.MaxSmallBody, empty: true})
	if err == nil && !none {
		err = checkLease(&a)
	}
	if err != nil {
		return nil, fmt.Errorf("lease a job: %w", err)
	}
	if none {
		return nil, nil //nolint:nilnil // there is no job, says ControlPlane
	}
	return &a, nil
}

// Heartbeat implements [ControlPlane]. Those that come at the same time share a request, except
// those that wait or have lines of a log.
func (c *Client) Heartbeat(ctx context.Context, id string, request wire.HeartbeatRequest) (a wire.HeartbeatResponse, err error) {
	shared := false
	if request.WaitSeconds == 0 && request.Log == nil {
		a, shared, err = share(ctx, c, &c.batches.beats, request.Kind, wire.JobHeartbeat{JobID: id, HeartbeatRequest: request}, c.sendHeartbeats)
	}
	if !shared {
		a, err = c.heartbeat(ctx, id, request)
	}
	if err != nil {
		return wire.HeartbeatResponse{}, fmt.Errorf("extend the lease on job %s: %w", id, err)
	}
	return a, nil
}

// heartbeat sends one alone.
func (c *Client) heartbeat(ctx context.Context, id string, request wire.HeartbeatRequest) (a wire.HeartbeatResponse, err error) {
	_, err = c.call(ctx, call{path: jobPath(kindPath(request.Kind, wire.PathHeartbeat), id), request: request, response: &a, wait: waitOf(request.WaitSeconds)})
	if err == nil && a.LeaseID != request.LeaseID {
		err = errBadResponse("another lease_id")
	}
	return a, err
}

// Result implements [ControlPlane]. Small ones that come at the same time share a request.
func (c *Client) Result(ctx context.Context, id string, request wire.ResultRequest) (a wire.ReportResponse, err error) {
	shared := false
	if sizeOf(request) <= MaxInline {
		a, shared, err = share(ctx, c, &c.batches.results, request.Kind, request.OfJob(id), c.sendResults)
	}
	if !shared {
		a, err = c.result(ctx, id, request)
	}
	if err != nil {
		return wire.ReportResponse{}, fmt.Errorf("deliver the result of job %s: %w", id, err)
	}
	return a, nil
}

// result sends one alone.
func (c *Client) result(ctx context.Context, id string, request wire.ResultRequest) (a wire.ReportResponse, err error) {
	_, err = c.call(ctx, call{path: jobPath(kindPath(request.Kind, wire.PathResult), id), request: request, response: &a})
	if err == nil && !a.OK {
		err = errBadResponse("missing ok=true")
	}
	return a, err
}

// sizeOf returns about how large a result is.
func sizeOf(r wire.ResultRequest) int {
	n := len(r.Result) + len(r.Meta) + 200*len(r.Artifacts)
	if r.Log != nil {
		for _, line := range r.Log.Lines {
			n += len(line)
		}
	}
	for _, text := range []*string{r.SummaryText, r.FreqsCSV} {
		if text != nil {
			n += len(*text)
		}
	}
	return n
}

// Failed implements [ControlPlane].
func (c *Client) Failed(ctx context.Context, id string, request wire.FailedRequest) (wire.FailedResponse, error) {
	var a wire.FailedResponse
	_, err := c.call(ctx, call{path: jobPath(kindPath(request.Kind, wire.PathFailed), id), request: request, response: &a})
	if err == nil && !a.OK {
		err = errBadResponse("missing ok=true")
	}
	if err != nil {
		return wire.FailedResponse{}, fmt.Errorf("report that job %s has failed: %w", id, err)
	}
	return a, nil
}

// noJob is the id of a job that there never is: a ULID of the year 1970.
const noJob = "00000000000000000000000000"

// Check returns nil if there is a gateway which takes the client's token. It
// changes nothing there. The error of a gateway wraps [*Error].
func (c *Client) Check(ctx context.Context) error { return c.check(ctx, wire.PathHeartbeat) }

// check makes the call of Check to the heartbeats of a kind.
func (c *Client) check(ctx context.Context, path string) error {
	_, err := c.call(ctx, call{path: jobPath(path, noJob), request: wire.HeartbeatRequest{LeaseID: "none"}, response: &wire.HeartbeatResponse{}})
	// A token is judged before the job it is used for.
	if e := (*Error)(nil); errors.As(err, &e) && (e.Code == wire.JobNotFound || e.Code == wire.LeaseLost) {
		return nil
	}
	if err == nil {
		err = errBadResponse("it knows a job that cannot exist")
	}
	return fmt.Errorf("check gateway: %w", err)
}

// register asks for a token. It is not repeated by itself: an enroll token is
// good once.
func (c *Client) register(ctx context.Context, request wire.RegisterRequest) (wire.RegisterResponse, error) {
	var a wire.RegisterResponse
	_, err := c.call(ctx, call{path: wire.PathRegister, request: request, response: &a, secret: request.Token, once: true})
	if err == nil {
		err = checkRegister(&a)
	}
	if err != nil {
		return wire.RegisterResponse{}, fmt.Errorf("register worker: %w", err)
	}
	return a, nil
}

// kindPath returns the path of a route of kind zpe for another kind.
func kindPath(kind, route string) string {
	if kind == "" {
		return route
	}
	return wire.PathOf(url.PathEscape(kind), route)
}

func jobPath(route, id string) string { return strings.Replace(route, "{id}", url.PathEscape(id), 1) }

// call is one call of the protocol.
type call struct {
	path     string
	query    url.Values
	method   string // POST when empty
	header   http.Header
	raw      []byte // the body, when it is not JSON
	request  any    // the body, if there is one
	response any
	wait     time.Duration // that the control plane may take of its own
	limit    int64         // bytes of the response; MaxSmallBody when 0
	once     bool          // the transport must not repeat it
	empty    bool          // the response may be 204
	secret   string        // what no error may show, next to the token
}

// upload is what a connection is thought to carry at the least, in bytes a second;
// a gateway waits for no slower one.
const upload = 32 << 10

// call makes a call. It reports whether the response was 204.
func (c *Client) call(ctx context.Context, what call) (none bool, err error) {
	body := what.raw
	if what.request != nil {
		if body, err = encode(what.request); err != nil {
			return false, err
		}
	}
	for tries := 1; ; tries++ {
		token := c.token()
		none, err = c.try(ctx, what, token, body)
		if err == nil {
			return none, nil
		}
		// Only a token that was refused can have been replaced meanwhile, in
		// memory or in the file.
		if e := (*Error)(nil); tries == 1 && errors.As(err, &e) && e.unauthorized() && c.tokens != nil && c.tokens.other(token, c.http.Base()) {
			continue
		}
		return false, client.Hide(err, token, what.secret)
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
	a, err := c.http.Do(ctx, &client.Request{
		Method: cmp.Or(what.method, http.MethodPost), URL: c.url(what), Header: what.header, Accept: "application/json", Body: body,
		Token: token, Secret: what.secret, Patience: patience, Limit: cmp.Or(what.limit, wire.MaxSmallBody), Idempotent: !what.once,
	})
	switch {
	case errors.Is(err, client.ErrTooLong):
		return false, errBadResponse(err.Error())
	case err != nil:
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
			err = fmt.Errorf("%w; if the gateway's certificate is your own, give it with GATEWAY_CA_FILE (register: --ca-file)", err)
		}
		return false, err
	}
	return readResponse(a.Head, a.Text, what)
}

func (c *Client) url(what call) *url.URL {
	u := c.http.Base().JoinPath(what.path)
	u.RawQuery = what.query.Encode()
	return u
}

// encode is [httpd.EncodeJSON] without the newline.
func encode(v any) ([]byte, error) {
	text, err := httpd.EncodeJSON(v)
	return bytes.TrimSuffix(text, []byte("\n")), err
}
