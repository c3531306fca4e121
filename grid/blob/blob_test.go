package blob

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// count returns what connect is given to count frames of a type, and to end the connection with the one of that number.
func count(kind wire.Type, n *int, end int) func(wire.Frame) bool {
	return func(f wire.Frame) bool {
		if f.Type == kind {
			*n++
		}
		return f.Type == kind && *n == end
	}
}

func TestG70BlobsOfAnySize(t *testing.T) {
	s, dir := openStore(t, Options{})
	c := connect(t, s, "worker-1", nil)
	for i, n := range []int{0, 1, Chunk - 1, Chunk, Chunk + 1, share, Window, Window + 1, 5<<20 + 7} {
		data, b := content(t, uint64(i), n)
		if err := c.put(t.Context(), b, data); err != nil {
			t.Fatalf("put %d bytes: %v", n, err)
		}
		if got := stored(t, s, b); !bytes.Equal(got, data) {
			t.Errorf("%d bytes: others were stored", n)
		}
		var got bytes.Buffer
		if err := c.Get(t.Context(), NewDownload(b, &got)); err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Errorf("get %d bytes: %d bytes, %v", n, got.Len(), err)
		}
	}
	if got := files(t, dir); got != 9 {
		t.Errorf("%d files, want those of 9 blobs", got)
	}
}

func TestG70KnownBlobIsNotSentAgain(t *testing.T) {
	s, _ := openStore(t, Options{})
	data, b := content(t, 1, 3*Chunk)
	chunks := 0
	c := connect(t, s, "a", count(wire.BlobChunk, &chunks, 0))
	for range 2 {
		if err := c.put(t.Context(), b, data); err != nil {
			t.Fatal(err)
		}
	}
	c.cut()
	if chunks != 3 {
		t.Errorf("%d chunks were sent, want 3", chunks)
	}
}

func TestG70ConcurrentTransfers(t *testing.T) {
	s, dir := openStore(t, Options{})
	c := connect(t, s, "a", nil)
	var all sync.WaitGroup
	for i := range 20 {
		data, b := content(t, uint64(i%15), 100_000*(i%15)) // some are the same
		all.Go(func() {
			var got bytes.Buffer
			err := c.put(t.Context(), b, data)
			if err == nil {
				err = c.Get(t.Context(), NewDownload(b, &got))
			}
			if err != nil || !bytes.Equal(got.Bytes(), data) {
				t.Errorf("blob %d: %d bytes, %v", i, got.Len(), err)
			}
		})
	}
	all.Wait()
	if got := files(t, dir); got != 15 {
		t.Errorf("%d files, want those of 15 blobs", got)
	}
}

func TestG70FramesWaitForOneWindowAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newSent()
		c := NewClient(out.send)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var puts sync.WaitGroup
		defer puts.Wait()
		defer cancel()
		ids := map[wire.GUID]int64{}
		for i := range 5 {
			data, b := content(t, uint64(i), 10*Chunk)
			puts.Go(func() { _ = c.Put(ctx, b, bytes.NewReader(data)) })
			synctest.Wait()
			all := out.all()
			id := all[len(all)-1].MsgID // of the offer that has come last, since nothing is acknowledged
			if i == 0 {
				if err := c.Handle(ackFrame(id, 0)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if n := len(out.all()); n != 1+share/Chunk {
					t.Fatalf("%d frames of one transfer before an acknowledgement, want the offer and %d chunks", n, share/Chunk)
				}
			}
			ids[id] = 0
		}
		for id := range ids {
			if err := c.Handle(ackFrame(id, 0)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		// Acknowledge one chunk after the other, and count what is on its way.
		for seen, onWay, most := 0, int64(0), int64(0); ; {
			for ; seen < len(out.all()); seen++ {
				if f := out.all()[seen]; f.Type == wire.BlobChunk {
					onWay += int64(len(f.Payload))
					ids[f.CorrID] += int64(len(f.Payload))
				}
			}
			if most = max(most, onWay); onWay == 0 {
				if most != Window {
					t.Errorf("at most %d bytes were on their way, want %d", most, Window)
				}
				break
			}
			for id, n := range ids {
				if n > 0 && onWay > 0 {
					if err := c.Handle(ackFrame(id, n)); err != nil {
						t.Fatal(err)
					}
				}
			}
			onWay = 0
			synctest.Wait()
		}
		for id, n := range ids {
			if n != 10*Chunk {
				t.Errorf("%d bytes of %s were sent", n, id)
			}
		}
	})
}

func TestG70TransfersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := openStore(t, Options{})
		out := newSent()
		server := NewServer(s, "a", out.send)
		defer server.Close()
		ids := map[wire.GUID]string{}
		var blobs []wire.Blob
		for i := range 3 {
			data, b := content(t, uint64(i), 4*Chunk)
			if err := s.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			blobs = append(blobs, b)
		}
		for i, b := range blobs {
			id := wire.NewGUID()
			ids[id] = string(rune('a' + i))
			if err := server.Handle(beginFrame(id, begin{SHA256: b.SHA256, Size: b.Size, Want: true})); err != nil {
				t.Fatal(err)
			}
		}
		order := ""
		has := map[wire.GUID]int64{}
		for range 12 {
			f := out.wait(t, len(order)+1)[len(order)]
			order += ids[f.CorrID]
			has[f.CorrID] += int64(len(f.Payload))
			synctest.Wait()
			if err := server.Handle(ackFrame(f.CorrID, has[f.CorrID])); err != nil {
				t.Fatal(err)
			}
		}
		// The first ones have had two chunks each before the last one began, and end before it.
		for i := range order[4:8] {
			if three := order[4+i : 7+i]; three[0] == three[1] || three[1] == three[2] || three[0] == three[2] {
				t.Errorf("chunks were sent in the order %s: %s is not in turns", order, three)
			}
		}
	})
}

func TestG70PutResumesAfterReconnect(t *testing.T) {
	s, dir := openStore(t, Options{})
	data, b := content(t, 1, 20*Chunk)
	chunks := 0
	first := connect(t, s, "worker-1", count(wire.BlobChunk, &chunks, 9))
	if err := first.put(t.Context(), b, data); !errors.Is(err, ErrClosed) {
		t.Fatalf("put over a connection that was cut: %v", err)
	}
	first.cut()
	if got, ok := s.Size(b.SHA256); ok {
		t.Fatalf("there is a blob of %d bytes already", got)
	}
	before := s.Used() / Chunk
	if before < 6 || before > 8 {
		t.Fatalf("%d chunks have arrived, want 6 to 8", before)
	}

	other := 0
	c := connect(t, s, "worker-2", count(wire.BlobChunk, &other, 0))
	if err := c.put(t.Context(), b, data); err != nil || other != 20 {
		t.Errorf("another peer has sent %d chunks, %v; want 20, none is taken from the first", other, err)
	}
	c.cut()
	s.mu.Lock()
	_, err := s.delete(t.Context(), []string{b.SHA256}, b.Size)
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}

	second := 0
	c = connect(t, s, "worker-1", count(wire.BlobChunk, &second, 0))
	if err := c.put(t.Context(), b, data); err != nil {
		t.Fatal(err)
	}
	if int64(second) != 20-before {
		t.Errorf("%d chunks were sent after %d had arrived of 20", second, before)
	}
	if got := stored(t, s, b); !bytes.Equal(got, data) {
		t.Error("another content was stored")
	}
	if got := files(t, dir); got != 1 {
		t.Errorf("%d files, want 1", got)
	}
}

func TestG70GetResumesAfterReconnect(t *testing.T) {
	s, _ := openStore(t, Options{})
	data, b := content(t, 1, 20*Chunk+5)
	if err := s.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	d := NewDownload(b, &got)
	begins := 0 // the request, and then acknowledgements
	first := connect(t, s, "a", count(wire.BlobBegin, &begins, 9))
	if err := first.Get(t.Context(), d); !errors.Is(err, ErrClosed) {
		t.Fatalf("get over a connection that was cut: %d bytes, %v", got.Len(), err)
	}
	first.cut()
	before := got.Len()
	if before != 8*Chunk {
		t.Fatalf("%d bytes have arrived, want 8 chunks", before)
	}
	if err := connect(t, s, "a", nil).Get(t.Context(), d); err != nil || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d bytes after %d: %v", got.Len(), before, err)
	}
}

func TestG70CanceledTransferLeavesNothing(t *testing.T) {
	s, dir := openStore(t, Options{})
	data, b := content(t, 1, 20*Chunk)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("not wanted any more")
	chunks := 0
	c := connect(t, s, "a", func(f wire.Frame) bool {
		if f.Type == wire.BlobChunk {
			if chunks++; chunks == 5 {
				cancel(reason)
			}
		}
		return false
	})
	if err := c.put(ctx, b, data); !errors.Is(err, reason) {
		t.Fatalf("got %v", err)
	}
	// The connection is still good, and the blob can be put.
	if err := c.put(t.Context(), b, data); err != nil {
		t.Fatal(err)
	}
	c.cut()
	if c.out.unacked != 0 || c.server.in.unacked != 0 {
		t.Errorf("%d and %d bytes of the window stay in use", c.out.unacked, c.server.in.unacked)
	}
	if n := files(t, dir); n != 1 || s.Used() != b.Size {
		t.Errorf("%d files and %d bytes, want those of one blob", n, s.Used())
	}
}
