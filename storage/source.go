package storage

import (
	"context"
	"io"
	"sync"

	"github.com/batchfleet/batchfleet/jobs"
)

// source is the reader given to Put. It notices between reads that ctx has
// ended, and remembers an error that is the caller's own, so that it can be told
// from an error of the store.
type source struct {
	ctx context.Context // lives for one Put
	r   io.Reader
	err error // the first error but io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF { // a wrapped EOF is a failure
		s.err = err
	}
	return n, err
}

// held returns why the object must not become visible: ctx has ended, or the attempt
// that stores it has lost its job.
func (s *source) held() error {
	if s.err = context.Cause(s.ctx); s.err == nil {
		s.err = jobs.Held(s.ctx)
	}
	return s.err
}

// bufferSize is the smallest unit of an upload to Cloud Storage.
const bufferSize = 256 << 10

// buffers are lent to every copy and every small upload: most objects are
// results of some hundred bytes, for which a fresh buffer would be the largest
// cost in memory.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// copyFrom copies all of s to w through a pooled buffer. The writer is hidden
// from io.CopyBuffer, which would otherwise let an *os.File bring its own.
func copyFrom(w io.Writer, s *source) error {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, s, buf[:])
	return err
}
