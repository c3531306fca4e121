// Package egress is an HTTP client for addresses that others have chosen: where they want to be called back, where
// a server has told us to upload to. It calls only what a [Policy] allows, and checks the address of each connection
// as it is made, because DNS may answer otherwise the second time. It follows no redirect, uses no proxy, bounds
// all that a server may send, and returns errors that show neither what was sent nor what came back.
//
// Package client is for servers that we have chosen.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/httpd/client"
)

const (
	connectTime = 10 * time.Second // for DNS and TCP, and again for TLS
	answerTime  = 2 * time.Minute  // from the end of a request to that of the headers; and again for the response's body
	dropTime    = time.Second      // for what is read and dropped of a body
	maxHeaders  = 64 << 10         // bytes of all headers of a response, those of 1xx included
	maxDropped  = 4 << 10          // bytes
)

// Client calls what a [Policy] allows. Its methods may be called concurrently.
type Client struct {
	policy    Policy
	transport *http.Transport
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
}

// New returns a client, which makes no call. p must not be changed any more.
func New(p Policy) *Client {
	c := &Client{policy: p}
	c.dial = (&net.Dialer{Timeout: connectTime, KeepAlive: 15 * time.Second, Resolver: p.Resolver, Control: c.control}).DialContext
	c.transport = &http.Transport{
		Proxy:       nil, // it would connect in our place, and check no address
		DialContext: c.connect,
		// One call a connection, so that a call knows what moves on its own.
		Protocols:              new(http.Protocols),
		TLSClientConfig:        &tls.Config{RootCAs: p.CAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    connectTime,
		ResponseHeaderTimeout:  answerTime,
		ExpectContinueTimeout:  2 * time.Second,
		MaxResponseHeaderBytes: maxHeaders,
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second,
		DisableCompression:     true, // a short response must not become a long one
	}
	c.transport.Protocols.SetHTTP1(true)
	return c
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// control is called with the address that a connection is about to be made to.
func (c *Client) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return denied("the address of its host is in no form that is known")
	}
	return c.policy.checkAddr(to.Addr())
}

func (c *Client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: conn}, nil
}

// Request is a call.
type Request struct {
	Method string      // GET when empty
	URL    string      // see [Policy.Check]
	Header http.Header // without effect on the host and the length that are sent
	// Body opens what is sent, none when nil. It may be called twice, when a connection that was kept open turns out to
	// be closed. What it returns is closed, perhaps shortly after Do has returned.
	Body   func() (io.ReadCloser, error)
	Length int64 // of what Body opens, in bytes
	// Timeout is how long all of the call may take, 15 seconds when 0. The headers of the answer, and then its body, must
	// come within two minutes anyway.
	Timeout time.Duration
	// Stall is after how long the call fails in which no byte is sent or received; 0 for never. Servers that think must
	// answer in that time, too.
	Stall time.Duration
	// ResponseLimit is how many bytes of the response's body are kept. When 0, its beginning is read and dropped.
	ResponseLimit int64
}

// Response is what a server has answered.
type Response struct {
	Status     int           // a redirect is a status like any other
	RetryAfter time.Duration // see [client.RetryAfter]
	Body       []byte        // not more than the limit of the request
	Cut        bool          // the body was longer
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// Do makes a call. Without a response the error is the cause of ctx, or that of r.Body, or it wraps [ErrDenied] or
// jobs.ErrUnavailable, after which the call may be tried again. With the last two its text shows nothing of r but its host,
// and nothing that the server has sent.
func (c *Client) Do(ctx context.Context, r *Request) (Response, error) {
	timeout := cmp.Or(r.Timeout, 15*time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, slow(fmt.Sprintf("there was no answer within %s", timeout)))
	defer cancel()
	call, giveUp := context.WithCancelCause(limited)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer giveUp(nil)

	var now watch
	req, err := c.request(httptrace.WithClientTrace(call, &httptrace.ClientTrace{GotConn: now.got}), r)
	if err != nil {
		return Response{}, err
	}
	if r.Stall > 0 {
		watching.Go(func() { now.run(call, r.Stall, giveUp) })
	}
	resp, err := c.transport.RoundTrip(req) // not http.Client: it reads where redirects lead, and errors quote it
	if err != nil {
		return Response{}, failure(ctx, call, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	answer := Response{Status: resp.StatusCode, RetryAfter: client.RetryAfter(resp)}
	if resp.StatusCode == http.StatusSwitchingProtocols { // its body is the bare connection: no context ends a read of it
		return answer, nil
	}
	if r.ResponseLimit <= 0 { // the answer counts, whatever becomes of the rest
		defer time.AfterFunc(dropTime, func() { giveUp(nil) }).Stop()
		_, _ = io.CopyN(io.Discard, resp.Body, maxDropped)
		return answer, nil
	}
	defer time.AfterFunc(answerTime, func() { giveUp(slow("the answer does not end")) }).Stop()
	answer.Body, err = io.ReadAll(io.LimitReader(resp.Body, r.ResponseLimit+1))
	if err != nil {
		return Response{}, failure(ctx, call, err)
	}
	if answer.Cut = int64(len(answer.Body)) > r.ResponseLimit; answer.Cut {
		answer.Body = answer.Body[:r.ResponseLimit]
	}
	return answer, nil
}

// request checks r and opens its body.
func (c *Client) request(ctx context.Context, r *Request) (*http.Request, error) {
	u, err := c.policy.Check(r.URL)
	if err != nil {
		return nil, err
	}
	method := cmp.Or(r.Method, http.MethodGet)
	if !slices.Contains(methods, method) {
		return nil, denied("its method is none of GET, HEAD, POST, PUT, PATCH and DELETE")
	}
	if !sendable(r.Header) {
		return nil, denied("the name or the value of a header has characters that cannot be sent")
	}
	req := (&http.Request{ProtoMajor: 1, ProtoMinor: 1, Method: method, URL: u, Header: http.Header{}, Body: http.NoBody}).WithContext(ctx)
	for name, values := range r.Header {
		for _, v := range values {
			req.Header.Add(name, v) // net/http leaves out Host, Content-Length and the like only if they are spelled so
		}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "batchfleet")
	}
	if r.Body == nil || r.Length == 0 {
		return req, nil
	}
	req.ContentLength = r.Length
	req.GetBody = func() (io.ReadCloser, error) { return open(r) }
	req.Body, err = open(r)
	return req, err
}
