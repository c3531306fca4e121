package egress

import (
	"io"
	"net"
	"testing"
	"time"
)

// The kernel of the other end takes what its program has not read yet.
func TestR54WhatHasArrivedCounts(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ours, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ours.Close() }()
	c := &counted{Conn: ours}
	before := c.moved()
	if _, err := io.WriteString(c, "0123456789"); err != nil {
		t.Fatal(err)
	}
	// Written and arrived.
	for deadline := time.Now().Add(time.Minute); c.moved() != before+20; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes have moved, want 20", c.moved()-before)
		}
	}
	_ = ours.Close()
	if n := arrived(ours); n != 0 {
		t.Errorf("%d bytes have arrived on a connection that is closed", n)
	}
}
