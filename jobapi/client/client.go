// Package client is a client of the Job API, for the job commands and other programs.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/httpd"
	httpclient "github.com/batchfleet/batchfleet/httpd/client"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/trace"
)

// Client is a client of one server. Its methods may be called concurrently.
//
// A refusal of the server is a [*jobapi.Refusal]. When there is no response, or none of
// this API, the error wraps [jobs.ErrUnavailable]. A call that only reads is then
// retried for a while, or once, after a second, if nothing listens at the address.
// Other calls are not retried.
type Client struct {
	http     *httpclient.Client
	token    string
	timeout  time.Duration
	retryFor time.Duration
	silence  time.Duration
	retrying func(error)
}

// Config is where a server is and how to connect to it. A zero duration
// stands for the default named beside it.
type Config struct {
	URL     string // its address, which may have a path: https, or http to this machine
	Token   string // empty for none
	CAFile  string // certificates in PEM that are trusted besides the system's; empty for none
	Version string // of the program, for the User-Agent
	// Proxy chooses a proxy for a request; [http.ProxyFromEnvironment] when nil.
	Proxy    func(*http.Request) (*url.URL, error)
	Timeout  time.Duration // of one call: 15 s
	RetryFor time.Duration // with a server that cannot be reached, when it is only to be read: 30 s
	Silence  time.Duration // after which a stream of events counts as cut; a server speaks every 15 s: 60 s
	// Dial connects to the server; by the system's network when nil. With it there is no proxy.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Retrying is told why a call has failed that is about to be made again; may be
	// nil. It is not called when a stream only continues over another connection.
	Retrying func(error)
}

// The limits of a response, in bytes.
const (
	maxResponse = 16 << 20 // a job with a large result, or a log
	maxEvent    = 16 << 20
)

// New returns a client. It makes no call.
func New(cfg Config) (*Client, error) {
	base, err := parseServer(cfg.URL)
	if err != nil {
		return nil, err
	}
	c, err := httpclient.New(httpclient.Config{Base: base, CAFile: cfg.CAFile, Version: cfg.Version, Connections: 4, Proxy: cfg.Proxy})
	if err != nil {
		return nil, err
	}
	if cfg.Dial != nil {
		c.Transport.DialContext, c.Transport.Proxy = cfg.Dial, nil
	}
	if cfg.Retrying == nil {
		cfg.Retrying = func(error) {}
	}
	return &Client{
		http: c, token: cfg.Token, retrying: cfg.Retrying,
		timeout: cmp.Or(cfg.Timeout, 15*time.Second), retryFor: cmp.Or(cfg.RetryFor, 30*time.Second), silence: cmp.Or(cfg.Silence, time.Minute),
	}, nil
}

// parseServer is httpclient.ParseBase, which knows how people shorten the address of
// a server on their own machine, and what they copy from a route.
func parseServer(s string) (*url.URL, error) {
	if u, err := url.Parse("http://" + s); err == nil && !strings.Contains(s, "://") && httpd.IsLoopback(u.Hostname()) && u.User == nil {
		return nil, fmt.Errorf("server address %s must begin with http:// or https://: write http://%s", u.Host, u.Host)
	}
	base, err := httpclient.ParseBase("server", "the token", s)
	if err != nil {
		return nil, err
	}
	if path, _, ok := strings.Cut(base.Path+"/", "/api/v1/"); ok {
		return nil, fmt.Errorf("server address %s: leave out /api/v1 and what follows, and write %s", base, &url.URL{Scheme: base.Scheme, Host: base.Host, Path: path})
	}
	return base, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.Close() }

// List returns a page of a scope's jobs, the newest first.
func (c *Client) List(ctx context.Context, scope string, q jobapi.Query) (jobapi.Page, error) {
	return c.ListMatching(ctx, scope, q, jobapi.Filter{})
}

// Get returns a job.
func (c *Client) Get(ctx context.Context, scope, id string) (jobapi.Job, error) {
	return c.Find(ctx, "get", id, scope)
}

// LogQuery says which lines of a log are asked for.
type LogQuery struct {
	Tail  int           // how many at most; 200 when 0
	Since time.Duration // only those written within it, to the second; any when 0
	Times bool          // each begins as [jobapi.LineTime] says
}

// Log returns the end of a job's log, each line with its end.
func (c *Client) Log(ctx context.Context, scope, id string, q LogQuery) (string, error) {
	query := url.Values{}
	if q.Tail != 0 {
		query.Set("tailLines", strconv.Itoa(q.Tail))
	}
	if q.Since != 0 {
		query.Set("sinceSeconds", strconv.Itoa(int(q.Since/time.Second)))
	}
	if q.Times {
		query.Set("times", "true")
	}
	a, err := c.do(ctx, &request{path: []string{scope, "jobs", id, "logs"}, query: query, media: "text/plain"})
	if err != nil {
		return "", fmt.Errorf("read log of job %s: %w", id, err)
	}
	return string(a), nil
}

// Cancel stops a job and returns when that was; the time is zero when the job
// still runs, until its worker has stopped it.
func (c *Client) Cancel(ctx context.Context, scope, id string) (jobapi.Time, error) {
	var a struct {
		ID     string      `json:"jobId"`
		Status jobs.State  `json:"status"`
		At     jobapi.Time `json:"canceledAt"`
	}
	err := c.json(ctx, &request{method: http.MethodPost, path: []string{scope, "jobs", id, "cancel"}}, &a)
	if err == nil && (a.ID != id || a.At.IsZero() != (a.Status != jobs.Canceled)) {
		err = errBadResponse("it does not say what has become of the job")
	}
	if err != nil {
		return jobapi.Time{}, fmt.Errorf("cancel job %s: %w", id, err)
	}
	return a.At, nil
}

// Create makes a job of an operation. body is an object, or nothing.
func (c *Client) Create(ctx context.Context, scope, operation string, body json.RawMessage) (jobapi.Item, error) {
	var a jobapi.Item
	err := c.json(ctx, &request{method: http.MethodPost, path: []string{scope, operation}, body: body, status: http.StatusAccepted}, &a)
	if err == nil && a.ID == "" {
		err = errBadResponse("it names no job")
	}
	if err != nil {
		return jobapi.Item{}, fmt.Errorf("run %s.%s: %w", scope, operation, err)
	}
	return a, nil
}

// Submit queues a job and returns it as it is then. One with a key is retried while the server cannot be reached, and if
// it was submitted before, that job is returned.
func (c *Client) Submit(ctx context.Context, scope string, s jobapi.Submission) (jobapi.Job, error) {
	body, err := json.Marshal(struct {
		Kind   string          `json:"kind"`
		Params json.RawMessage `json:"params,omitempty"`
		Input  string          `json:"input,omitempty"`
		Inputs []string        `json:"inputs,omitempty"`
		ID     string          `json:"id,omitempty"`
	}{s.Kind, s.Params, s.Input, s.Inputs, s.ID})
	if err != nil {
		return jobapi.Job{}, fmt.Errorf("submit a job of kind %s: %w", s.Kind, err)
	}
	ctx, span := trace.Start(ctx, "send", trace.Client)
	defer func() { span.EndWith(err) }()
	r := &request{method: http.MethodPost, path: []string{scope, "jobs"}, body: body, wait: 15 * time.Second, header: http.Header{}}
	if s.Key != "" {
		r.repeatable = true
		r.header.Set(jobapi.HeaderIdempotencyKey, s.Key)
	}
	if traceparent := trace.Of(ctx); traceparent != "" {
		r.header.Set(httpd.HeaderTraceparent, traceparent)
	}
	var j jobapi.Job
	err = c.json(ctx, r, &j)
	if err == nil && j.ID == "" {
		err = errBadResponse("it names no job")
	}
	if err != nil {
		return jobapi.Job{}, fmt.Errorf("submit a job of kind %s: %w", s.Kind, err)
	}
	return j, nil
}

// Plan returns what a job of an operation would do.
func (c *Client) Plan(ctx context.Context, scope, operation string, body json.RawMessage) ([]jobapi.Planned, error) {
	var a struct {
		DryRun bool             `json:"dryRun"`
		Steps  []jobapi.Planned `json:"steps"`
	}
	err := c.json(ctx, &request{method: http.MethodPost, path: []string{scope, operation}, query: url.Values{"dryRun": {"true"}}, body: body, status: http.StatusOK, wait: 30 * time.Second}, &a)
	if err == nil && !a.DryRun {
		err = errBadResponse("it is not about a dry run")
	}
	if err != nil {
		return nil, fmt.Errorf("plan %s.%s: %w", scope, operation, err)
	}
	return a.Steps, nil
}

const asJSON = "application/json"

// Scopes returns the scopes that a server may have, those of its own jobs first.
func Scopes() []string {
	return []string{"system", "utils", "fleet", "zpe", "gateway", "relay", "grid"}
}

// scopesOf returns the scopes that a job with this id may be in, the likelier first.
func scopesOf(id string) []string {
	scopes := Scopes()
	if strings.HasPrefix(id, "job_") {
		return scopes
	}
	return append(scopes[2:], scopes[:2]...)
}

// Find returns a job of one of these scopes, of any if there are none. action is
// what an error says that was to be done with the job.
func (c *Client) Find(ctx context.Context, action, id string, scopes ...string) (jobapi.Job, error) {
	if len(scopes) == 0 {
		scopes = scopesOf(id)
	}
	var missing error
	for _, scope := range scopes {
		var j jobapi.Job
		err := c.json(ctx, &request{path: []string{scope, "jobs", id}}, &j)
		switch refused, _ := errors.AsType[*jobapi.Refusal](err); {
		case err == nil && j.ID != id:
			err = errBadResponse("it is about another job")
		case err == nil:
			return j, nil
		case refused != nil && refused.Status == http.StatusNotFound:
			missing = cmp.Or(missing, err)
			continue
		}
		return jobapi.Job{}, fmt.Errorf("%s job %s: %w", action, id, err)
	}
	return jobapi.Job{}, fmt.Errorf("%s job %s: %w", action, id, missing)
}
