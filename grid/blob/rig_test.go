package blob

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

var quiet = slog.New(slog.DiscardHandler)

func openStore(t *testing.T, o Options) (s *Store, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "blobs")
	o.Log = quiet
	s, err := OpenStore(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

// content returns n bytes that depend on the seed, and their blob.
func content(t *testing.T, seed uint64, n int) ([]byte, wire.Blob) {
	t.Helper()
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data) // it never fails
	b, err := Sum(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return data, b
}

// stored returns a blob of a store.
func stored(t *testing.T, s *Store, b wire.Blob) []byte {
	t.Helper()
	r, size, err := s.Open(t.Context(), b.SHA256, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil || int64(len(data)) != size {
		t.Fatalf("%d of %d bytes, %v", len(data), size, err)
	}
	return data
}

// files returns how many files a store has, unfinished ones, too.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// connection is a client and a server, and a connection between them, over package link.
type connection struct {
	*Client
	server *Server
	cut    func() // ends the connection, and waits for both ends
}

// connect connects to a store as an owner. Seen, if not nil, is told of each frame that the client is about to send; the connection ends if it returns true.
func connect(t *testing.T, s *Store, owner string, seen func(f wire.Frame) (end bool)) *connection {
	t.Helper()
	a, b := net.Pipe()
	ours, theirs := link.New(a, link.Options{}), link.New(b, link.Options{})
	c := &connection{}
	c.Client = NewClient(func(all ...wire.Frame) error {
		for _, f := range all {
			if seen != nil && seen(f) {
				ours.Abort(io.EOF)
			}
		}
		return ours.Send(all...)
	})
	c.server = NewServer(s, owner, theirs.Send)
	var loops sync.WaitGroup
	loops.Go(func() { receive(ours, c.Handle); c.Close() })
	loops.Go(func() { receive(theirs, c.server.Handle); c.server.Close() })
	c.cut = sync.OnceFunc(func() {
		ours.Abort(io.EOF)
		theirs.Abort(io.EOF)
		loops.Wait()
	})
	t.Cleanup(c.cut)
	return c
}

func receive(c *link.Conn, handle func(wire.Frame) error) {
	for {
		f, err := c.Receive()
		if err == nil {
			err = handle(f)
		}
		if err != nil {
			c.Abort(err)
			return
		}
	}
}

// put is Put of what is in memory.
func (c *connection) put(ctx context.Context, b wire.Blob, data []byte) error {
	return c.Put(ctx, b, bytes.NewReader(data))
}

// sent gathers the frames that one end sends.
type sent struct {
	mu     sync.Mutex
	frames []wire.Frame
	more   chan struct{} // signaled with each frame, if it has room
}

func newSent() *sent { return &sent{more: make(chan struct{}, 1)} }

func (s *sent) send(frames ...wire.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = append(s.frames, frames...)
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

// all returns what was sent so far.
func (s *sent) all() []wire.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.frames)
}

// wait waits until n frames were sent, and returns them.
func (s *sent) wait(t *testing.T, n int) []wire.Frame {
	t.Helper()
	for {
		if all := s.all(); len(all) >= n {
			return all
		}
		select {
		case <-s.more:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
}
