package egress

import (
	"fmt"
	"io"
)

// body is the body of a request. It keeps its own errors apart from those of the connection, and ends where it was
// said to end.
type body struct {
	io.ReadCloser
	read, length int64
}

// bodyError is why a body cannot be read.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

func open(r *Request) (io.ReadCloser, error) {
	content, err := r.Body()
	if err != nil {
		return nil, bodyError{err}
	}
	return &body{ReadCloser: content, length: r.Length}, nil
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.read == b.length && err == nil {
		// The last bytes are not sent before it is known that they are: a server could take what it has for all.
		var more int
		more, err = io.ReadFull(b.ReadCloser, make([]byte, 1))
		b.read += int64(more)
	}
	switch {
	case b.read > b.length, err == io.EOF && b.read < b.length:
		return 0, bodyError{fmt.Errorf("the body of the request does not have the %d bytes that were said: was it changed?", b.length)}
	case err == nil || err == io.EOF:
		return n, err
	}
	return 0, bodyError{err}
}
