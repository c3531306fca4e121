package gateway

import (
	"context"
	"net"
)

// DialWith makes a client reach its control plane through dial.
func (c *Client) DialWith(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	c.http.Transport.DialContext = dial
}
