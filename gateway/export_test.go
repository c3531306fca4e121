package gateway

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"
)

// DialWith makes a client reach its control plane through dial.
func (c *Client) DialWith(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	c.http.Transport.DialContext = dial
}

// ProxyBy makes a client reach its control plane through a proxy.
func (c *Client) ProxyBy(proxy *url.URL) { c.http.Transport.Proxy = http.ProxyURL(proxy) }

// WaitFor sets how long a client waits for a response.
func (c *Client) WaitFor(d time.Duration) { c.timeout = d }

// CancelGrace is how long a request for jobs may go on after it was canceled.
const CancelGrace = cancelGrace
