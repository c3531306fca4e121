package storage

import (
	"context"
	"fmt"
	"io"

	"github.com/batchfleet/batchfleet/jobs"
)

// body is the content of an open object. Its job is to tell an error of the
// store from one of the content: a reader that fails in the middle is not a
// broken document.
type body struct {
	ctx  context.Context // lives as long as the open object
	name string
	r    io.ReadCloser
}

func (b *body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.r.Read(p)
	switch {
	case err == nil || err == io.EOF: // a wrapped EOF is a failure
		return n, err
	case b.ctx.Err() != nil:
		return n, context.Cause(b.ctx)
	}
	return n, fmt.Errorf("read object %s: %w: %w", b.name, jobs.ErrUnavailable, err)
}

func (b *body) Close() error { return b.r.Close() }
