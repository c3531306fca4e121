package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// stream returns all golden frames after each other.
func stream(t *testing.T) (frames []Frame, all []byte) {
	byName, bytes := golden(t)
	for name, f := range byName {
		frames = append(frames, f)
		all = append(all, bytes[name]...)
	}
	return frames, all
}

// readAll reads frames until there is an error.
func readAll(r io.Reader) (frames []Frame, err error) {
	for reader := NewReader(r); ; {
		f, err := reader.Read()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
}

func TestG02FramesDoNotDependOnReadSizes(t *testing.T) {
	want, all := stream(t)
	check := func(what string, r io.Reader) {
		t.Helper()
		got, err := readAll(r)
		if !reflect.DeepEqual(got, want) || !errors.Is(err, io.EOF) {
			t.Fatalf("%s: error %v and difference %s", what, err, cmp.Diff(want, got))
		}
	}
	check("in one piece", bytes.NewReader(all))
	check("byte by byte", iotest.OneByteReader(bytes.NewReader(all)))
	check("with the end in the last read", iotest.DataErrReader(bytes.NewReader(all)))
	for i := range all {
		check("in two pieces", io.MultiReader(bytes.NewReader(all[:i]), bytes.NewReader(all[i:])))
	}
}

func TestG02EndWithinAFrame(t *testing.T) {
	frames, all := stream(t)
	ends := []int{0}
	for i := range frames {
		ends = append(ends, ends[i]+4+frames[i].Len())
	}
	for i := range len(all) + 1 {
		got, err := readAll(bytes.NewReader(all[:i]))
		whole, between := slices.BinarySearch(ends, i)
		if !between {
			whole--
		}
		if len(got) != whole {
			t.Fatalf("an end after %d bytes: %d frames, want %d", i, len(got), whole)
		}
		if between && !errors.Is(err, io.EOF) || !between && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("an end after %d bytes, between two frames: %t, is error %v", i, between, err)
		}
	}
}

func TestG02PayloadsAreNotReused(t *testing.T) {
	var all []byte
	for i := range 100 {
		f := Frame{Type: AckJob, Payload: bytes.Repeat([]byte{byte(i)}, 1000*i)}
		all = f.Append(all)
	}
	got, err := readAll(iotest.HalfReader(bytes.NewReader(all)))
	if !errors.Is(err, io.EOF) || len(got) != 100 {
		t.Fatalf("%d frames, error %v", len(got), err)
	}
	for i, f := range got {
		if !bytes.Equal(f.Payload, bytes.Repeat([]byte{byte(i)}, 1000*i)) {
			t.Errorf("payload %d has changed", i)
		}
	}
}

// allocated returns how many bytes f has allocated.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestG05LengthAllocatesNothing(t *testing.T) {
	const peers = 1000
	for _, test := range []struct {
		name  string
		claim uint32
		sent  int
		each  uint64 // bytes that one may cost
	}{
		{"refused lengths cost a small buffer", 0xffff_ffff, 100, 3 * smallBuffer},
		{"a length of 4 MiB costs 64 KiB", MaxFrame, 100, 3*smallBuffer + step},
		{"and what has come twice", MaxFrame, 300_000, 3*smallBuffer + step + 4*300_000},
	} {
		in := binary.LittleEndian.AppendUint32(nil, test.claim)
		in = append(in, make([]byte, test.sent)...)
		peers := peers
		if test.sent > 1000 {
			peers = 10
		}
		got := allocated(func() {
			for range peers {
				if _, err := NewReader(bytes.NewReader(in)).Read(); err == nil {
					t.Fatal("a frame was read")
				}
			}
		})
		if got > uint64(peers)*test.each {
			t.Errorf("%s: %d bytes for each of %d peers, want at most %d", test.name, got/uint64(peers), peers, test.each)
		}
	}
}

func TestG05PartIsCalledOftenEnough(t *testing.T) {
	f := Frame{Type: AckJob, Payload: make([]byte, 3<<20)}
	in := f.Append(f.Append(nil))
	since, most, begins := 0, 0, 0
	r := NewReader(readerFunc(func(p []byte) (int, error) {
		if len(in) == 0 {
			return 0, io.EOF
		}
		n := copy(p[:min(len(p), 1000)], in)
		in = in[n:]
		since += n
		most = max(most, since)
		return n, nil
	}))
	r.Part = func(within bool) {
		since = 0
		if !within {
			begins++
		}
	}
	for range 2 {
		if _, err := r.Read(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Read(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if most > 2*step { // a piece of a frame, and what the buffer takes beyond it
		t.Errorf("%d bytes have come between two calls of Part", most)
	}
	if begins < 2 { // the second frame begins in the buffer
		t.Errorf("Part(false) was called %d times", begins)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzF1Read checks that any bytes are read without a panic, and that what is read is written as it was.
func FuzzF1Read(f *testing.F) {
	_, all := golden(f)
	for _, frame := range all {
		f.Add(frame, uint16(7))
	}
	f.Add(raw(minFrame+4, 8, "abcd", 0, "xxxx"), uint16(1))
	f.Fuzz(func(t *testing.T, in []byte, split uint16) {
		var frames []Frame
		var err error
		if got, most := allocated(func() { frames, err = readAll(bytes.NewReader(in)) }), uint64(20*len(in)+4*step); got > most {
			t.Errorf("%d bytes allocated for %d", got, len(in))
		}
		var out []byte
		for i := range frames {
			if err := frames[i].Check(); err != nil {
				t.Errorf("frame %d: %v", i, err)
			}
			out = frames[i].Append(out)
		}
		if !bytes.HasPrefix(in, out) || errors.Is(err, io.EOF) && len(out) != len(in) {
			t.Errorf("%x is read as %+v with error %v, which is written as %x", in, frames, err, out)
		}
		at := int(split) % (len(in) + 1)
		again, err2 := readAll(io.MultiReader(bytes.NewReader(in[:at]), bytes.NewReader(in[at:])))
		if diff := cmp.Diff(frames, again); diff != "" || err.Error() != err2.Error() {
			t.Errorf("in two pieces with error %v for %v, and difference %s", err2, err, diff)
		}
	})
}

func TestG52ReaderBufferShrinks(t *testing.T) {
	frame := (&Frame{Type: AckJob, Payload: make([]byte, 100)}).Append(nil)
	ours, theirs := net.Pipe()
	defer ours.Close()
	r := NewReader(ours)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer theirs.Close()
	say := func(frames, times int) {
		t.Helper()
		writing.Go(func() {
			for range times {
				_, _ = theirs.Write(bytes.Repeat(frame, frames)) // the reader finds out
			}
		})
		for range frames * times {
			if f, err := r.Read(); err != nil || f.Type != AckJob || len(f.Payload) != 100 {
				t.Fatal(f, err)
			}
		}
	}
	for range 2 {
		say(1, 3)
		if r.r.Size() != smallBuffer {
			t.Errorf("after a few frames the buffer has %d bytes", r.r.Size())
		}
		say(1000, 2)
		if r.r.Size() != largeBuffer {
			t.Errorf("after many frames the buffer has %d bytes", r.r.Size())
		}
		say(1, 2*calmReads)
		if r.r.Size() != smallBuffer {
			t.Errorf("once few frames come, the buffer has %d bytes", r.r.Size())
		}
	}
}
