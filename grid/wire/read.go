package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	smallBuffer = 4 << 10  // so that an idle connection costs little
	largeBuffer = 64 << 10 // to get many frames by one read
	calmReads   = 16       // small reads in a row after which the large buffer is given back
	step        = 64 << 10 // how much memory is allocated before its bytes have arrived
)

// largeBuffers are shared by all readers.
var largeBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, largeBuffer) }}

// Reader reads frames. It must not be used concurrently.
type Reader struct {
	// Part, if not nil, is called before Read waits for bytes: with false at the beginning of a frame, with true within one, at least
	// once for each 64 KiB.
	Part func(within bool)

	from    io.Reader
	r       *bufio.Reader
	subject string // of the last frame
	calm    int    // how many reads in a row were small, while the buffer is large
}

// NewReader returns a reader of frames from r.
func NewReader(r io.Reader) *Reader { return &Reader{from: r, r: bufio.NewReaderSize(r, smallBuffer)} }

// Next returns the type of the next frame. It reports false unless the whole frame is in the buffer.
func (r *Reader) Next() (t Type, ok bool) {
	if r.r.Buffered() <= prefix {
		return 0, false
	}
	head, _ := r.r.Peek(prefix + 1) // it does not wait
	if uint64(binary.LittleEndian.Uint32(head))+prefix > uint64(r.r.Buffered()) {
		return 0, false
	}
	return Type(head[prefix]), true
}

// Read returns the next frame. The caller may keep its payload. The error is io.EOF at an end between two frames, wraps io.ErrUnexpectedEOF at an
// end within a frame, and wraps [ErrFrame] if the bytes are no frame.
func (r *Reader) Read() (Frame, error) {
	head, err := r.head()
	if err != nil {
		return Frame{}, err
	}
	n := binary.LittleEndian.Uint32(head)
	if err := checkLen(n); err != nil {
		return Frame{}, err
	}
	if all := prefix + int(n); all <= r.r.Buffered() {
		whole, _ := r.r.Peek(all)
		f, err := parse(whole[prefix:], r.subject)
		f.Payload = append(make([]byte, 0, len(f.Payload)), f.Payload...) // alone: it may be kept for long
		_, _ = r.r.Discard(all)
		r.subject = f.Subject
		return f, err
	}
	_, _ = r.r.Discard(prefix)
	body, err := r.body(int(n))
	if err != nil {
		return Frame{}, err
	}
	f, err := parse(body, r.subject)
	r.subject = f.Subject
	return f, err
}

// resize replaces a small buffer that a read has filled by a large one, and counts small reads into a large one. It is called after a read into an
// empty buffer.
func (r *Reader) resize() {
	n := r.r.Buffered()
	switch {
	case r.r.Size() == smallBuffer && n == smallBuffer:
		rest, _ := r.r.Peek(n)
		larger := largeBuffers.Get().(*bufio.Reader)
		larger.Reset(io.MultiReader(bytes.NewReader(rest), r.from))
		_, _ = larger.Peek(n) // they are here, so it does not wait
		r.r, r.calm = larger, 0
	case r.r.Size() == largeBuffer && n > smallBuffer:
		r.calm = 0
	case r.r.Size() == largeBuffer:
		r.calm++
	}
}

// shrink replaces a large buffer by a small one after calmReads small reads. The buffer must be empty.
func (r *Reader) shrink() {
	if r.calm < calmReads {
		return
	}
	large := r.r
	r.r, r.calm = bufio.NewReaderSize(r.from, smallBuffer), 0
	large.Reset(nil)
	largeBuffers.Put(large)
}

// head waits for the length of the next frame.
func (r *Reader) head() ([]byte, error) {
	if r.r.Buffered() >= prefix {
		return r.r.Peek(prefix)
	}
	if r.r.Buffered() == 0 {
		r.shrink()
		r.part(false)
		if _, err := r.r.Peek(1); err != nil {
			return nil, err // io.EOF between two frames is an orderly end
		}
		r.resize()
	}
	r.part(true)
	head, err := r.r.Peek(prefix)
	return head, within(err)
}

// body reads n bytes. It allocates memory as they arrive, so the length alone allocates at most 64 KiB.
func (r *Reader) body(n int) ([]byte, error) {
	body := make([]byte, min(n, step))
	for have := 0; ; {
		next := min(len(body), have+step)
		if r.r.Buffered() < next-have {
			r.part(true)
		}
		if _, err := io.ReadFull(r.r, body[have:next]); err != nil {
			return nil, within(err)
		}
		if have = next; have == n {
			return body, nil
		}
		if have == len(body) {
			larger := make([]byte, min(n, 2*have))
			copy(larger, body)
			body = larger
		}
	}
}

func (r *Reader) part(within bool) {
	if r.Part != nil {
		r.Part(within)
	}
}

// within turns io.EOF into the error of an end within a frame.
func within(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w within a frame", io.ErrUnexpectedEOF)
	}
	return err
}
