package link

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// halves is a connection whose writing end can be closed alone, as that of TCP can.
type halves struct {
	net.Conn
	halfClosed atomic.Bool
	reads      chan struct{} // is sent to before each Read, if it is not nil
	closes     chan struct{} // is closed with the writing end, if it is not nil
}

func (h *halves) Read(p []byte) (int, error) {
	if h.reads != nil {
		h.reads <- struct{}{}
	}
	return h.Conn.Read(p)
}

func (h *halves) CloseWrite() error {
	h.halfClosed.Store(true)
	if h.closes != nil {
		close(h.closes)
	}
	return nil
}

// lingering returns a connection that is being closed, its other end, and a channel that is closed when Close has returned.
func lingering(t *testing.T) (c *Conn, p *peer, closed chan struct{}) {
	t.Helper()
	ours, theirs := net.Pipe()
	half := &halves{Conn: ours}
	c, p = New(half, Options{Dialed: true}), &peer{Conn: theirs}
	t.Cleanup(func() {
		_ = p.Close()
		c.Abort(net.ErrClosed)
		p.Wait()
	})
	if err := c.Send(wire.Frame{Type: wire.Error}); err != nil {
		t.Fatal(err)
	}
	closed = make(chan struct{})
	p.Go(func() {
		defer close(closed)
		_ = c.Close()
	})
	if f, err := wire.NewReader(p).Read(); f.Type != wire.Error || err != nil {
		t.Fatalf("the peer has read %s, %v", f.Type, err)
	}
	synctest.Wait()
	if !half.halfClosed.Load() {
		t.Error("the peer is not told that no more comes")
	}
	return c, p, closed
}

func TestG03CloseReadsWhatStillComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, closed := lingering(t)
		for range 100 {
			if _, err := p.Write(written(wire.Frame{Type: wire.AckJob, Payload: make([]byte, 1<<20)})); err != nil {
				t.Fatalf("the connection is closed with something unread: %v", err)
			}
		}
		start := time.Now()
		_ = p.Close()
		<-closed
		wantEnd(t, c.Err(), net.ErrClosed, start, 0)
		if f, err := c.Receive(); err == nil {
			t.Errorf("Receive has returned a %s of what is discarded", f.Type)
		}
	})
}

func TestG05CloseDoesNotNeedThePeer(t *testing.T) {
	for _, test := range []struct {
		name string
		send bool
	}{{"one that is silent", false}, {"one that goes on sending", true}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c, p, closed := lingering(t)
				if test.send {
					p.Go(func() { send(p, make([]byte, 1<<20), 1, time.Second/10) })
				}
				<-closed
				wantEnd(t, c.Err(), net.ErrClosed, start, LingerTimeout)
			})
		})
	}
}

func TestG03ReceiveGetsWhatComesDuringClose(t *testing.T) {
	ours, theirs := net.Pipe()
	half := &halves{Conn: ours, reads: make(chan struct{}, 100), closes: make(chan struct{})}
	c := New(half, Options{Dialed: true})
	p := &peer{Conn: theirs}
	defer p.Wait()
	got := make(chan wire.Type, 10)
	p.Go(func() {
		defer close(got)
		for {
			f, err := c.Receive()
			if err != nil {
				return
			}
			got <- f.Type
		}
	})
	<-half.reads // it waits within Receive
	p.Go(func() { _ = c.Close() })
	<-half.closes
	if _, err := p.Write(written(wire.Frame{Type: wire.ResultAck})); err != nil {
		t.Fatal(err)
	}
	_ = p.Close()
	if first, ok := <-got; !ok || first != wire.ResultAck {
		t.Errorf("Receive has returned %s, want %s", first, wire.ResultAck)
	}
}
