package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	readBuffer = 64 << 10
	step       = 64 << 10 // how much memory is taken before bytes have arrived for it
)

// Reader reads frames. It is used by one goroutine.
type Reader struct {
	// Part is called before bytes are waited for: with false at the beginning of a frame, with true within one, once for
	// each 64 KiB. Nil for nothing.
	Part func(within bool)

	r       *bufio.Reader
	subject string // of the last frame
}

// NewReader returns a reader of frames from r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, readBuffer)} }

// Buffered reports whether more bytes are here already.
func (r *Reader) Buffered() bool { return r.r.Buffered() > 0 }

// Read returns the next frame, whose payload the caller may keep. The error is io.EOF at the end, io.ErrUnexpectedEOF if that
// is within a frame, and wraps [ErrFrame] for what is no frame.
func (r *Reader) Read() (Frame, error) {
	head, err := r.head()
	if err != nil {
		return Frame{}, err
	}
	n := binary.LittleEndian.Uint32(head)
	if err := checkLen(n); err != nil {
		return Frame{}, err
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

// head waits for the length of a frame.
func (r *Reader) head() ([]byte, error) {
	if r.r.Buffered() >= prefix {
		return r.r.Peek(prefix)
	}
	if r.r.Buffered() == 0 {
		r.part(false)
		if _, err := r.r.Peek(1); err != nil {
			return nil, err // io.EOF between two frames is an orderly end
		}
	}
	r.part(true)
	head, err := r.r.Peek(prefix)
	return head, within(err)
}

// body reads n bytes. It takes memory as they arrive, so a claim of 4 MiB costs nothing.
func (r *Reader) body(n int) ([]byte, error) {
	body := make([]byte, min(n, step))
	for have := 0; ; {
		if r.r.Buffered() < len(body)-have {
			r.part(true)
		}
		if _, err := io.ReadFull(r.r, body[have:]); err != nil {
			return nil, within(err)
		}
		if have = len(body); have == n {
			return body, nil
		}
		larger := make([]byte, min(n, 2*have))
		copy(larger, body)
		body = larger
	}
}

func (r *Reader) part(within bool) {
	if r.Part != nil {
		r.Part(within)
	}
}

// within is the error of an end within a frame.
func within(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w within a frame", io.ErrUnexpectedEOF)
	}
	return err
}
