package emulator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"golang.org/x/net/http2"
)

// written returns what a client writes after its preface.
func written(tb testing.TB, write func(f *http2.Framer) error) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := write(http2.NewFramer(&b, nil)); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// grpcMessage returns a message of that length.
func grpcMessage(length int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(length)), make([]byte, length)...)
}

func TestE07IncompleteMessagesAreCounted(t *testing.T) {
	whole := grpcMessage(1000)
	tests := []struct {
		name  string
		write func(f *http2.Framer) error
		want  int
	}{
		{"a whole message", func(f *http2.Framer) error { return f.WriteData(1, false, whole) }, 0},
		{"two in a frame", func(f *http2.Framer) error {
			return f.WriteData(1, false, append(slices.Clip(whole), whole...))
		}, 0},
		{"a whole and a part", func(f *http2.Framer) error {
			return f.WriteData(1, false, append(slices.Clip(whole), whole[:300]...))
		}, 300 + incompleteMessageBytes},
		{"a part", func(f *http2.Framer) error { return f.WriteData(1, false, whole[:500]) }, 500 + incompleteMessageBytes},
		{"less than a length", func(f *http2.Framer) error { return f.WriteData(1, false, whole[:3]) }, 3 + incompleteMessageBytes},
		{"parts on two streams", func(f *http2.Framer) error {
			return errors.Join(f.WriteData(1, false, whole[:500]), f.WriteData(3, false, whole[:100]))
		}, 600 + 2*incompleteMessageBytes},
		{"a message in two frames", func(f *http2.Framer) error {
			return errors.Join(f.WriteData(1, false, whole[:500]), f.WriteData(3, false, whole[:100]), f.WriteData(1, true, whole[500:]))
		}, 100 + incompleteMessageBytes},
		{"a stream that is reset", func(f *http2.Framer) error {
			return errors.Join(f.WriteData(1, false, whole[:500]), f.WriteRSTStream(1, http2.ErrCodeCancel))
		}, 0},
		{"a stream that ends early", func(f *http2.Framer) error {
			return errors.Join(f.WriteData(1, false, whole[:500]), f.WriteData(1, true, nil))
		}, 0},
		{"a stream that ends with trailers", func(f *http2.Framer) error {
			return errors.Join(f.WriteData(1, false, whole[:500]), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true}))
		}, 0},
		{"a message the server refuses", func(f *http2.Framer) error {
			return f.WriteData(1, false, grpcMessage(maxRequestBytes + 1)[:1000])
		}, incompleteMessageBytes},
		{"a padded frame", func(f *http2.Framer) error { return f.WriteDataPadded(1, false, whole[:500], make([]byte, 10)) }, 511 + incompleteMessageBytes},
		{"frames of other kinds", func(f *http2.Framer) error {
			return errors.Join(f.WriteSettings(), f.WritePing(false, [8]byte{}), f.WriteWindowUpdate(0, 1), f.WriteRawFrame(99, 1, 1, whole))
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := append([]byte(http2.ClientPreface), written(t, tt.write)...)
			for _, chunk := range []int{1, 2, 7, 9, 100, len(in)} {
				r := frameReader{skip: len(http2.ClientPreface)}
				for at := 0; at < len(in); at += chunk {
					r.read(in[at:min(at+chunk, len(in))])
				}
				if r.held != tt.want {
					t.Errorf("in chunks of %d bytes %d are held, want %d", chunk, r.held, tt.want)
				}
			}
		})
	}
}

func TestE07TheLargestHoldersGiveUpFirst(t *testing.T) {
	var a inflightBytes
	small, large := inflightShare{total: &a}, inflightShare{total: &a}
	must(t, small.set(1000))
	if err := large.set(maxInflight - 1000); err != nil {
		t.Fatalf("%v, though the limit is not exceeded", err)
	}
	if err := small.set(2000); err != nil {
		t.Errorf("the small one: %v, want it left alone", err)
	}
	if err := large.set(maxInflight - 999); !errors.Is(err, errInflight) {
		t.Errorf("the large one: %v, want %v", err, errInflight)
	}
	for _, m := range []*inflightShare{&small, &large} {
		if err := m.set(0); err != nil {
			t.Error(err)
		}
	}
	if a.used != 0 || a.holders != 0 {
		t.Errorf("%d bytes of %d holders are left", a.used, a.holders)
	}
}

func FuzzFrameReader(f *testing.F) {
	f.Add(written(f, func(f *http2.Framer) error {
		return errors.Join(f.WriteSettings(), f.WriteData(1, false, grpcMessage(10)[:12]), f.WriteDataPadded(3, true, grpcMessage(3), make([]byte, 3)))
	}), 3)
	f.Fuzz(func(t *testing.T, in []byte, chunk int) {
		whole, parts := frameReader{}, frameReader{}
		whole.read(in)
		chunk = max(chunk, 1)
		for rest := in; len(rest) > 0; {
			n := min(chunk, len(rest))
			parts.read(rest[:n])
			rest = rest[n:]
		}
		if whole.held != parts.held || whole.held < 0 || whole.held > len(in)*(1+incompleteMessageBytes) {
			t.Errorf("%d held of %d bytes at once, %d in chunks of %d", whole.held, len(in), parts.held, chunk)
		}
	})
}
