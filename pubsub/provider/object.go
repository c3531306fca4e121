package provider

import (
	"context"
	"fmt"
	"io"

	"github.com/batchfleet/batchfleet/storage"
)

// openObject returns the content of an object, which is an [io.Seeker] if the store can open it at an offset.
func openObject(ctx context.Context, store storage.Store, name string, size int64) (io.ReadCloser, error) {
	body, err := store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if ranger, ok := store.(storage.Ranger); ok {
		return &object{ctx: ctx, store: ranger, name: name, size: size, body: body}, nil
	}
	return body, nil
}

// object is the content of an object, opened again where it is sought.
type object struct {
	ctx   context.Context // lives as long as the open object
	store storage.Ranger
	name  string
	size  int64
	body  io.ReadCloser
}

// Seek implements [io.Seeker], of offsets within the object from its start.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || offset < 0 || offset >= o.size {
		return 0, fmt.Errorf("seek object %s: no offset within %d bytes from its start", o.name, o.size)
	}
	_ = o.body.Close() // it was only read
	body, err := o.store.OpenAt(o.ctx, o.name, offset)
	if err != nil {
		o.body = io.NopCloser(nil)
		return 0, err
	}
	o.body = body
	return offset, nil
}

func (o *object) Read(p []byte) (int, error) { return o.body.Read(p) }

func (o *object) Close() error { return o.body.Close() }
