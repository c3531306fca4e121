package gateway

import (
	"context"
	"net"
)

// DialWith makes a client reach its control plane through dial.
func (c *Client) DialWith(dial func(ctx context.Context) (net.Conn, error)) {
	c.http.Transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
}
