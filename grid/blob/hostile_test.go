package blob

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// ended returns the code with which a transfer was ended, and whether it was.
func ended(t *testing.T, frames []wire.Frame, id wire.GUID) (e Error, ok bool) {
	t.Helper()
	for _, f := range frames {
		if f.Type == wire.BlobEnd && f.CorrID == id {
			if err := json.Unmarshal(f.Payload, &e); err != nil {
				t.Fatal(err)
			}
			return e, true
		}
	}
	return e, false
}

func TestG70ProtocolErrorEndsTransfer(t *testing.T) {
	_, b := content(t, 1, 3*Chunk+5)
	offer := func(change func(*begin)) begin {
		o := begin{SHA256: b.SHA256, Size: b.Size}
		change(&o)
		return o
	}
	chunk := func(n int) wire.Frame { return wire.Frame{Type: wire.BlobChunk, Payload: make([]byte, n)} }
	tests := []struct {
		name  string
		offer begin
		more  []wire.Frame
		code  string
	}{
		{"another content", offer(func(o *begin) { o.Size = Chunk }), []wire.Frame{chunk(Chunk)}, wire.CodeInvalid},
		{"a short chunk", offer(func(*begin) {}), []wire.Frame{chunk(Chunk - 1)}, wire.CodeProtocol},
		{"an empty chunk", offer(func(*begin) {}), []wire.Frame{chunk(0)}, wire.CodeProtocol},
		{"a long chunk", offer(func(*begin) {}), []wire.Frame{chunk(Chunk + 1)}, wire.CodeProtocol},
		{"more bytes than announced", offer(func(o *begin) { o.Size = 7 }), []wire.Frame{chunk(8)}, wire.CodeProtocol},
		{"a digest that is none", offer(func(o *begin) { o.SHA256 = "../../etc/passwd" }), nil, wire.CodeInvalid},
		{"a digest in capitals", offer(func(o *begin) { o.SHA256 = strings.ToUpper(b.SHA256) }), nil, wire.CodeInvalid},
		{"a negative size", offer(func(o *begin) { o.Size = -1 }), nil, wire.CodeInvalid},
		{"a size above the limit", offer(func(o *begin) { o.Size = 1 << 62 }), nil, wire.CodeInvalid},
		{"a request for what is not there", offer(func(o *begin) { o.Want = true }), nil, wire.CodeNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, dir := openStore(t, Options{})
				out := newSent()
				server := NewServer(s, "a", out.send)
				id := wire.NewGUID()
				if err := server.Handle(beginFrame(id, tt.offer)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for _, f := range tt.more {
					f.CorrID = id
					if err := server.Handle(f); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if e, ok := ended(t, out.all(), id); !ok || e.Code != tt.code {
					t.Errorf("ended %t with %q (%s), want %s", ok, e.Code, e.Message, tt.code)
				}
				if n := files(t, dir); n != 0 || s.Used() != 0 {
					t.Errorf("%d files and %d bytes are left", n, s.Used())
				}
				server.Close()
			})
		})
	}
}

func TestG70GetChecksSizeAndOffset(t *testing.T) {
	s, _ := openStore(t, Options{})
	data, b := content(t, 1, 3*Chunk+5)
	if err := s.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	out := newSent()
	server := NewServer(s, "a", out.send)
	defer server.Close()
	for _, want := range []begin{
		{SHA256: b.SHA256, Size: b.Size + 1},
		{SHA256: b.SHA256, Size: b.Size, Offset: -Chunk},
		{SHA256: b.SHA256, Size: b.Size, Offset: 1},
		{SHA256: b.SHA256, Size: b.Size, Offset: 4 * Chunk},
	} {
		id := wire.NewGUID()
		want.Want = true
		if err := server.Handle(beginFrame(id, want)); err != nil {
			t.Fatal(err)
		}
		if e, ok := ended(t, out.all(), id); !ok || e.Code != wire.CodeInvalid {
			t.Errorf("%+v: ended %t with %q", want, ok, e.Code)
		}
	}
}

func TestG70WindowOverrunEndsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &receiver{all: map[wire.GUID]*incoming{}}
		var err error
		for i := range Window/Chunk + 1 { // transfers whose chunks are not taken
			id := wire.NewGUID()
			one, addErr := in.add(id, 10*Chunk, MaxTransfers)
			if addErr != nil {
				t.Fatal(addErr)
			}
			in.begin(one, 0)
			err = in.chunk(wire.Frame{CorrID: id, Payload: make([]byte, Chunk)})
			if (err != nil) != (i == Window/Chunk) {
				t.Errorf("chunk %d: %v", i, err)
			}
		}
		if !errors.Is(err, wire.ErrFrame) {
			t.Errorf("got %v", err)
		}
	})
}

func TestG70OneTransferHasHalfTheWindow(t *testing.T) {
	in := &receiver{all: map[wire.GUID]*incoming{}}
	id := wire.NewGUID()
	one, err := in.add(id, 10*Chunk, MaxTransfers)
	if err != nil {
		t.Fatal(err)
	}
	in.begin(one, 0)
	for range share/Chunk + 1 {
		if err := in.chunk(wire.Frame{CorrID: id, Payload: make([]byte, Chunk)}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-one.ended:
	default:
		t.Error("the transfer goes on")
	}
	in.remove(one)
	if in.unacked != 0 {
		t.Errorf("%d bytes of the window stay in use", in.unacked)
	}
}

func TestG70PutsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := openStore(t, Options{})
		out := newSent()
		server := NewServer(s, "a", out.send)
		busy := 0
		for range 10_000 {
			id := wire.NewGUID()
			_, b := content(t, 1, 10)
			if err := server.Handle(beginFrame(id, begin{SHA256: b.SHA256, Size: b.Size})); err != nil {
				t.Fatal(err)
			}
			all := out.all()
			if e, ok := ended(t, all[max(0, len(all)-1):], id); ok && e.Code == wire.CodeBusy {
				busy++
			}
		}
		synctest.Wait()
		if s.uploads > MaxTransfers || busy != 10_000-MaxTransfers {
			t.Errorf("%d uploads are under way, and %d were refused", s.uploads, busy)
		}
		server.Close()
		if n := files(t, dir); n != 0 || s.Used() != 0 || len(s.parked) != 0 {
			t.Errorf("%d files, %d bytes, %d interrupted uploads are left", n, s.Used(), len(s.parked))
		}
	})
}

func TestG70GetsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := openStore(t, Options{})
		b := put(t, s, 1, 10)
		out := newSent()
		server := NewServer(s, "a", out.send)
		defer server.Close()
		busy := 0
		for range 100 {
			id := wire.NewGUID()
			if err := server.Handle(beginFrame(id, begin{SHA256: b.SHA256, Size: b.Size, Want: true})); err != nil {
				t.Fatal(err)
			}
			if e, ok := ended(t, out.all(), id); ok && e.Code == wire.CodeBusy {
				busy++
			}
		}
		if busy != 100-MaxTransfers {
			t.Errorf("%d gets were refused", busy)
		}
	})
}

func TestG70ServerEndsStalledTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := openStore(t, Options{})
		data, b := content(t, 1, 5*Chunk)
		out := newSent()
		server := NewServer(s, "a", out.send)
		defer server.Close()
		put := wire.NewGUID()
		if err := server.Handle(beginFrame(put, begin{SHA256: b.SHA256, Size: b.Size})); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := server.Handle(wire.Frame{Type: wire.BlobChunk, CorrID: put, Payload: data[:Chunk]}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := files(t, dir); n != 1 {
			t.Fatalf("%d files while it is sent", n)
		}
		time.Sleep(StallLimit - time.Second)
		synctest.Wait()
		if _, ok := ended(t, out.all(), put); ok {
			t.Error("it was given up too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if e, ok := ended(t, out.all(), put); !ok || e.Code != wire.CodeBusy {
			t.Errorf("ended %t with %q", ok, e.Code)
		}
		if n := files(t, dir); n != 0 || s.Used() != 0 {
			t.Errorf("%d files and %d bytes are left", n, s.Used())
		}

		if err := s.Put(t.Context(), b.SHA256, b.Size, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		get := wire.NewGUID()
		if err := server.Handle(beginFrame(get, begin{SHA256: b.SHA256, Size: b.Size, Want: true})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(StallLimit + time.Second)
		synctest.Wait()
		if e, ok := ended(t, out.all(), get); !ok || e.Code != wire.CodeBusy || server.gets.Load() != 0 {
			t.Errorf("a get that is not acknowledged ended %t with %q", ok, e.Code)
		}
	})
}

func TestG70ClientEndsStalledTransfer(t *testing.T) {
	data, b := content(t, 1, 5*Chunk)
	chunk := func(id wire.GUID, n int) wire.Frame {
		return wire.Frame{Type: wire.BlobChunk, CorrID: id, Payload: make([]byte, n)}
	}
	tests := []struct {
		name string
		get  bool
		say  func(id wire.GUID) []wire.Frame // after the request
		want error
	}{
		{"that does not answer a put", false, nil, ErrStalled},
		{"that does not answer a get", true, nil, ErrStalled},
		{"that does not go on with a put", false, func(id wire.GUID) []wire.Frame { return []wire.Frame{ackFrame(id, 0)} }, ErrStalled},
		{"that does not go on with a get", true, func(id wire.GUID) []wire.Frame { return []wire.Frame{chunk(id, Chunk)} }, ErrStalled},
		{"that acknowledges what was not sent", false, func(id wire.GUID) []wire.Frame {
			return []wire.Frame{ackFrame(id, 0), ackFrame(id, 5*Chunk)}
		}, wire.ErrFrame},
		{"that begins within a chunk", false, func(id wire.GUID) []wire.Frame { return []wire.Frame{ackFrame(id, 7)} }, wire.ErrFrame},
		{"that begins behind the end", false, func(id wire.GUID) []wire.Frame { return []wire.Frame{ackFrame(id, 6*Chunk)} }, wire.ErrFrame},
		{"that sends half a chunk", true, func(id wire.GUID) []wire.Frame { return []wire.Frame{chunk(id, Chunk), chunk(id, 1)} }, wire.ErrFrame},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := newSent()
				c := NewClient(out.send)
				defer c.Close()
				result := make(chan error, 1)
				go func() {
					if tt.get {
						result <- c.Get(t.Context(), NewDownload(b, &bytes.Buffer{}))
					} else {
						result <- c.Put(t.Context(), b, bytes.NewReader(data))
					}
				}()
				synctest.Wait()
				id := out.all()[0].MsgID
				if tt.say != nil {
					for _, f := range tt.say(id) {
						if err := c.Handle(f); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := <-result; !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if _, ok := ended(t, out.all(), id); !ok {
					t.Error("the server was not told, and goes on")
				}
				if c.in.unacked != 0 || c.out.unacked != 0 {
					t.Errorf("%d and %d bytes of the window stay in use", c.in.unacked, c.out.unacked)
				}
			})
		})
	}
}

func TestG70ClientChecksDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := content(t, 1, 10)
		out := newSent()
		c := NewClient(out.send)
		defer c.Close()
		result := make(chan error, 1)
		go func() { result <- c.Get(t.Context(), NewDownload(b, &bytes.Buffer{})) }()
		synctest.Wait()
		if err := c.Handle(wire.Frame{Type: wire.BlobChunk, CorrID: out.all()[0].MsgID, Payload: make([]byte, 10)}); err != nil {
			t.Fatal(err)
		}
		if err := <-result; !errors.Is(err, ErrDigest) {
			t.Errorf("got %v", err)
		}
	})
}
