package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// peer is the other end of a connection, and what the test does there at the same time.
type peer struct {
	net.Conn
	sync.WaitGroup
}

// pair returns a connection over a pipe, and its other end.
func pair(t *testing.T, opts Options) (*Conn, *peer) {
	t.Helper()
	ours, theirs := net.Pipe()
	c, p := New(ours, opts), &peer{Conn: theirs}
	t.Cleanup(func() {
		_ = p.Close()
		c.Abort(net.ErrClosed)
		p.Wait()
	})
	return c, p
}

// written is a frame as bytes.
func written(f wire.Frame) []byte { return f.Append(nil) }

// wantEnd checks why a connection has ended, and after how long.
func wantEnd(t *testing.T, err, want error, start time.Time, after time.Duration) {
	t.Helper()
	if !errors.Is(err, want) || time.Since(start) != after {
		t.Errorf("ended with %v after %s, want %v after %s", err, time.Since(start), want, after)
	}
}

func TestG52ReadyNeedsAWholeFrame(t *testing.T) {
	whole, ping := written(wire.Frame{Type: wire.AckJob, Payload: make([]byte, 100)}), written(wire.Frame{Type: wire.Ping})
	for name, test := range map[string]struct {
		behind []byte // the first frame
		ready  bool
	}{
		"nothing": {}, "a frame": {whole, true}, "a ping": {ping, false}, "a part of a frame": {whole[:len(whole)-1], false}, "a part of a length": {whole[:2], false},
	} {
		c, p := pair(t, Options{})
		p.Go(func() { _, _ = p.Write(append(written(wire.Frame{Type: wire.HelloWorker}), test.behind...)) })
		if _, err := c.Receive(); err != nil {
			t.Fatal(err)
		}
		if c.Ready() != test.ready {
			t.Errorf("with %s behind a frame, Ready is %t", name, !test.ready)
		}
	}
}

func TestG04FramesOfConcurrentSendersAreWhole(t *testing.T) {
	const senders, each = 8, 200
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var sending sync.WaitGroup
	sending.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		c := New(conn, Options{MaxUnsent: 1 << 30})
		var group sync.WaitGroup
		for s := range senders {
			group.Go(func() {
				for i := range each {
					payload := bytes.Repeat([]byte{byte(i)}, i*97%(3*large)) // copied ones, and others
					if err := c.Send(wire.Frame{Type: wire.AckJob, Subject: fmt.Sprint(s), Payload: payload}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := New(conn, Options{Dialed: true})
	defer c.Close()
	next := map[string]int{}
	for range senders * each {
		f, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		i := next[f.Subject]
		next[f.Subject]++
		if !bytes.Equal(f.Payload, bytes.Repeat([]byte{byte(i)}, i*97%(3*large))) {
			t.Fatalf("frame %d of sender %s has another payload, of %d bytes", i, f.Subject, len(f.Payload))
		}
	}
	if _, err := c.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want EOF", err)
	}
	sending.Wait()
}

func TestG02EndOfAConnection(t *testing.T) {
	whole := written(wire.Frame{Type: wire.HelloClient, Subject: "c"})
	for _, test := range []struct {
		name string
		sent []byte
		want error
	}{
		{"between two frames", whole, io.EOF},
		{"within a frame", append(whole, whole[:20]...), io.ErrUnexpectedEOF},
		{"within a length", append(whole, 0), io.ErrUnexpectedEOF},
		{"in what is no frame", append(whole, 0, 0, 0, 0), wire.ErrFrame},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, peer := pair(t, Options{})
				peer.Go(func() {
					_, _ = peer.Write(test.sent)
					_ = peer.Close()
				})
				if _, err := c.Receive(); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Receive(); !errors.Is(err, test.want) {
					t.Errorf("Receive = %v, want %v", err, test.want)
				}
				<-c.Done()
			})
		})
	}
}

func TestG03TooLargeFrameKeepsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, Options{})
		if err := c.Send(wire.Frame{Type: wire.Credit}, wire.Frame{Type: wire.AckJob, Payload: make([]byte, wire.MaxFrame)}); !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("Send = %v, want %v", err, wire.ErrTooLarge)
		}
		if err := c.SendWith(wire.Frame{Type: wire.AckJob, Payload: make([]byte, wire.MaxFrame)}, wire.NewGUID()); !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("SendWith = %v, want %v", err, wire.ErrTooLarge)
		}
		if err := c.Send(wire.Frame{Type: wire.Drain}); err != nil {
			t.Fatal(err)
		}
		if f, err := wire.NewReader(peer).Read(); f.Type != wire.Drain || err != nil {
			t.Errorf("the peer has read %s, %v", f.Type, err)
		}
		if c.Err() != nil {
			t.Errorf("the connection has ended: %v", c.Err())
		}
	})
}

func TestDialerNeedsNoHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, Options{Dialed: true})
		peer.Go(func() { send(peer, written(wire.Frame{Type: wire.Result}), 1000, 24*time.Hour) }) // a leader of the original protocol says nothing before
		if f, err := c.Receive(); f.Type != wire.Result || err != nil {
			t.Errorf("Receive = %s, %v", f.Type, err)
		}
	})
}

// greeted returns a connection whose peer has said hello.
func greeted(t *testing.T) (*Conn, *peer) {
	t.Helper()
	c, peer := pair(t, Options{})
	peer.Go(func() { _, _ = peer.Write(written(wire.Frame{Type: wire.HelloWorker})) })
	if f, err := c.Receive(); f.Type != wire.HelloWorker || err != nil {
		t.Fatalf("Receive = %s, %v", f.Type, err)
	}
	return c, peer
}

func TestG52SilentPeerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := greeted(t)
		peer.Go(func() { _, _ = io.Copy(io.Discard, peer) }) // it reads, and answers nothing
		c.Ping()
		start := time.Now()
		_, err := c.Receive()
		wantEnd(t, err, ErrSilent, start, SilenceLimit)
	})
}

func TestG52IdlePeerThatAnswersPingsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := greeted(t)
		c.Ping()
		other := New(peer, Options{Dialed: true})
		defer other.Abort(net.ErrClosed)
		peer.Go(func() { _, _ = other.Receive() }) // it answers pings
		ended := make(chan error, 1)
		peer.Go(func() {
			_, err := c.Receive()
			ended <- err
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := c.Err(); err != nil {
			t.Errorf("ended: %v", err)
		}
		other.Abort(net.ErrClosed)
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("Receive = %v, want EOF", err)
		}
	})
}

func TestG52PeerWithoutPingsMayBeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := greeted(t)
		peer.Go(func() {
			time.Sleep(24 * time.Hour)
			_, _ = peer.Write(written(wire.Frame{Type: wire.AckJob}))
		})
		if f, err := c.Receive(); f.Type != wire.AckJob || err != nil {
			t.Errorf("Receive = %s, %v", f.Type, err)
		}
		if n := c.Unsent(); n != 0 {
			t.Errorf("%d bytes were sent to a peer that knows no pings", n)
		}
	})
}

func TestG52PingIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := greeted(t)
		peer.Go(func() { _, _ = c.Receive() })
		ping := wire.NewGUID()
		if _, err := peer.Write(written(wire.Frame{Type: wire.Ping, MsgID: ping})); err != nil {
			t.Fatal(err)
		}
		if f, err := wire.NewReader(peer).Read(); f.Type != wire.Pong || f.CorrID != ping || err != nil {
			t.Errorf("the answer is %s to %s, %v, want Pong to %s", f.Type, f.CorrID, err, ping)
		}
	})
}

func TestCloseWritesQueuedFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, Options{})
		for range 1000 {
			if err := c.Send(wire.Frame{Type: wire.Result, Payload: make([]byte, 1000)}); err != nil {
				t.Fatal(err)
			}
		}
		closed := make(chan error, 1)
		peer.Go(func() { closed <- c.Close() })
		r := wire.NewReader(peer)
		for i := range 1000 {
			if _, err := r.Read(); err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
		}
		if _, err := r.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v, want EOF", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := c.Send(wire.Frame{Type: wire.Result}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Send = %v, want %v", err, net.ErrClosed)
		}
	})
}

func TestCloseHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, Options{})
		if err := c.Send(wire.Frame{Type: wire.Result, Payload: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		peer.Go(func() {
			for buf := make([]byte, 64<<10); ; time.Sleep(time.Second) { // all takes 16 s
				if _, err := peer.Read(buf); err != nil {
					return
				}
			}
		})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantEnd(t, c.Err(), ErrSlow, start, WriteTimeout)
	})
}

func TestG48WrittenReportsIDsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []wire.GUID
		c, peer := pair(t, Options{Written: func(ids []wire.GUID) { told = append(told, ids...) }})
		var want []wire.GUID
		for range 100 {
			want = append(want, wire.NewGUID())
			if err := c.SendWith(wire.Frame{Type: wire.Result, Payload: make([]byte, 1000)}, want[len(want)-1]); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(told) != 0 {
			t.Errorf("%d were told before they were read", len(told))
		}
		r := wire.NewReader(peer)
		for range want {
			if _, err := r.Read(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

func TestWaitEndsWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, Options{MaxUnsent: 100_000})
		if err := c.Wait(t.Context()); err != nil {
			t.Errorf("with nothing queued: %v", err)
		}
		if err := c.Send(wire.Frame{Type: wire.SubmitJob, Payload: make([]byte, 90_000)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with no room: %v", err)
		}
		peer.Go(func() { _, _ = io.Copy(io.Discard, peer) })
		if err := c.Wait(t.Context()); err != nil {
			t.Errorf("with room again: %v", err)
		}
		peer.Go(func() {
			time.Sleep(time.Second)
			c.Abort(ErrSilent)
		})
		<-c.Done()
		if err := c.Wait(t.Context()); !errors.Is(err, ErrSilent) {
			t.Errorf("after the end: %v", err)
		}
	})
}
