package blob

import (
	"path/filepath"
	"testing"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// FuzzG70Frames gives a server and a client any frames: whatever they are, nothing is left behind, and no more than the limits is under way.
func FuzzG70Frames(f *testing.F) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	const x = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of "x"
	f.Add([]byte("\x00\x01\x63{\"Sha256\":\"" + x + "\",\"Size\":1,\"Offset\":0,\"Want\":false}    " + "\x01\x01\x01x" + "\x02\x01\x02{}"))
	f.Add([]byte("\x00\x01\x63{\"Sha256\":\"" + empty + "\",\"Size\":0,\"Offset\":0,\"Want\":true}     "))
	f.Add([]byte("\x03\x01\x0c{\"Offset\":1}\x02\x02\x0c{\"Code\":\"X\"}"))
	dir := filepath.Join(f.TempDir(), "blobs")
	s, err := OpenStore(f.Context(), dir, Options{Quota: 1 << 20, Log: quiet})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		server, client := NewServer(s, "", newSent().send), NewClient(newSent().send)
		for len(data) >= 3 {
			frame := wire.Frame{}
			id := wire.GUID{data[1] % 4}
			switch data[0] % 4 {
			case 0:
				frame.Type, frame.MsgID = wire.BlobBegin, id
			case 1:
				frame.Type, frame.CorrID = wire.BlobChunk, id
			case 2:
				frame.Type, frame.CorrID = wire.BlobEnd, id
			case 3:
				frame.Type, frame.CorrID = wire.BlobBegin, id
			}
			n := min(int(data[2]), len(data)-3)
			frame.Payload, data = data[3:3+n], data[3+n:]
			if server.Handle(frame) != nil || client.Handle(frame) != nil {
				break
			}
			if n := server.in.count(); n > MaxTransfers {
				t.Fatalf("%d transfers", n)
			}
		}
		server.Close()
		client.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		sum := int64(0)
		for _, o := range s.blobs {
			sum += o.size
		}
		if s.uploads != 0 || len(s.writing) != 0 || len(s.parked) != 0 || s.used != sum || server.in.unacked != 0 || server.gets.Load() != 0 {
			t.Errorf("%d uploads, %d bytes in blobs of %d, %d not acknowledged, %d gets", s.uploads, s.used, sum, server.in.unacked, server.gets.Load())
		}
	})
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}
