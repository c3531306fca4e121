package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/batchfleet/batchfleet/jobs"
)

// Body is the content of an open object. Its errors mark trouble with the store, so
// that a failed read is not taken for a broken document.
type Body struct {
	ctx     context.Context // lives as long as the open object
	name    string
	Content io.ReadCloser
}

// NewBody returns the content r of the object of that name.
func NewBody(ctx context.Context, name string, r io.ReadCloser) *Body {
	return &Body{ctx: ctx, name: name, Content: r}
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.Content.Read(p)
	switch {
	case err == nil || err == io.EOF: // a wrapped EOF is a failure
		return n, err
	case b.ctx.Err() != nil:
		return n, context.Cause(b.ctx)
	}
	return n, fmt.Errorf("read object %s: %w: %w", b.name, jobs.ErrUnavailable, err)
}

// Close implements [io.Closer].
func (b *Body) Close() error { return b.Content.Close() }
