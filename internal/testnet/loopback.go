// Package testnet listens for tests: in memory or on loopback.
package testnet

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Serve calls serve with a listener on addr, a port of loopback, until the test ends or
// stop is called, which waits for it. It returns the address with the port it has.
func Serve(tb testing.TB, addr string, serve func(context.Context, net.Listener) error) (at string, stop func()) {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	// Not the test's context, which ends before its cleanups.
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := serve(ctx, l); err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	stop = func() {
		cancel()
		serving.Wait()
	}
	tb.Cleanup(stop)
	return l.Addr().String(), stop
}

// AnyPort is an address for [Serve].
const AnyPort = "127.0.0.1:0"
