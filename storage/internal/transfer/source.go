// Package transfer moves the content of objects: what all stores do to a reader given
// to Put and to one returned by Open.
package transfer

import (
	"context"
	"io"
	"sync"

	"github.com/batchfleet/batchfleet/jobs"
)

// Source is the reader given to Put. It notices between reads that ctx has
// ended, and remembers an error that is the caller's own, so that it can be told
// from an error of the store.
type Source struct {
	ctx context.Context // lives for one Put
	r   io.Reader
	Err error // the caller's own: the first error but io.EOF
}

// NewSource returns the source for one Put.
func NewSource(ctx context.Context, r io.Reader) *Source { return &Source{ctx: ctx, r: r} }

// Read implements [io.Reader].
func (s *Source) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		s.Err = context.Cause(s.ctx)
		return 0, s.Err
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF { // a wrapped EOF is a failure
		s.Err = err
	}
	return n, err
}

// Held returns why the object must not become visible: ctx has ended, or the attempt
// that stores it has lost its job.
func (s *Source) Held() error {
	if s.Err = context.Cause(s.ctx); s.Err == nil {
		s.Err = jobs.Held(s.ctx)
	}
	return s.Err
}

// BufferSize is the smallest unit of an upload to Cloud Storage.
const BufferSize = 256 << 10

// Buffers are lent to every copy and every small upload: most objects are
// results of some hundred bytes, for which a fresh buffer would be the largest
// cost in memory.
var Buffers = sync.Pool{New: func() any { return new([BufferSize]byte) }}

// Copy copies all of s to w through a pooled buffer. The writer is hidden
// from io.CopyBuffer, which would otherwise let an *os.File bring its own.
func Copy(w io.Writer, s *Source) error {
	buf := Buffers.Get().(*[BufferSize]byte)
	defer Buffers.Put(buf)
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, s, buf[:])
	return err
}
