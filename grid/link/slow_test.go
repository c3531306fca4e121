package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

func TestG05SlowPeersAreClosed(t *testing.T) {
	hello := written(wire.Frame{Type: wire.HelloClient, Subject: "c"})
	long := written(wire.Frame{Type: wire.SubmitJob, Payload: make([]byte, 1<<20)})
	for _, test := range []struct {
		name  string
		sent  []byte
		size  int // of a piece
		every time.Duration
		after time.Duration // from the beginning
	}{
		{"one that says nothing", nil, 1, time.Second, HelloTimeout},
		{"a hello byte by byte", hello, 1, time.Second, HelloTimeout},
		{"a frame byte by byte", append(bytes.Clone(hello), long...), 1, 50 * time.Millisecond, time.Duration(len(hello)+4)*50*time.Millisecond + FrameTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, peer := pair(t, Options{})
				start := time.Now()
				peer.Go(func() { send(peer, test.sent, test.size, test.every) })
				for {
					if _, err := c.Receive(); err != nil {
						wantEnd(t, err, ErrSilent, start, test.after)
						return
					}
				}
			})
		})
	}
}

// send writes pieces with pauses before them, until the connection ends.
func send(to net.Conn, all []byte, size int, every time.Duration) {
	for len(all) > 0 {
		time.Sleep(every)
		n := min(size, len(all))
		if _, err := to.Write(all[:n]); err != nil {
			return
		}
		all = all[n:]
	}
}

func TestG05SlowFrameIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, Options{Dialed: true})
		f := wire.Frame{Type: wire.SubmitJob, Payload: make([]byte, wire.MaxFrame-39)}
		peer.Go(func() { send(peer, written(f), 16<<10, 7*time.Second) }) // 64 KiB in less than 30 s
		if got, err := c.Receive(); err != nil || len(got.Payload) != len(f.Payload) {
			t.Errorf("received %d bytes, %v", len(got.Payload), err)
		}
	})
}

func TestG05EachPartHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, Options{Dialed: true})
		start := time.Now()
		peer.Go(func() { _, _ = peer.Write(binary.LittleEndian.AppendUint32(nil, 1000)) })
		_, err := c.Receive()
		wantEnd(t, err, ErrSilent, start, FrameTimeout)
	})
}

func TestG53PeerThatDoesNotReadIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(t, Options{})
		start := time.Now()
		if err := c.Send(wire.Frame{Type: wire.Result, Payload: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		wantEnd(t, c.Err(), ErrSlow, start, WriteTimeout)
		if err := c.Send(wire.Frame{Type: wire.Result}); !errors.Is(err, ErrSlow) {
			t.Errorf("Send = %v, want %v", err, ErrSlow)
		}
	})
}

func TestG53SendDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(t, Options{})
		start := time.Now()
		f := wire.Frame{Type: wire.Result, Payload: make([]byte, 1<<20-43)}
		sent := 0
		for ; sent < 100; sent++ {
			if err := c.Send(f); err != nil {
				wantEnd(t, err, ErrSlow, start, 0)
				break
			}
		}
		if sent != MaxUnsent>>20 {
			t.Errorf("%d MiB were queued, want %d", sent, MaxUnsent>>20)
		}
		<-c.Done()
	})
}

func TestG53SlowReaderStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pair(t, Options{})
		var all []byte
		for i := range 12 {
			f := wire.Frame{Type: wire.Result, Payload: bytes.Repeat([]byte{byte(i)}, 1<<20)}
			all = f.Append(all)
			if err := c.Send(f); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, 0, len(all))
		buf := make([]byte, 64<<10)
		for len(got) < len(all) {
			time.Sleep(time.Second) // all takes minutes
			n, err := peer.Read(buf)
			if err != nil {
				t.Fatalf("after %d of %d bytes: %v, ended with %v", len(got), len(all), err, c.Err())
			}
			got = append(got, buf[:n]...)
		}
		if !bytes.Equal(got, all) {
			t.Error("other bytes were written")
		}
	})
}
