package storage

import (
	"context"
	"fmt"
	"io"
)

// OpenSeeker is Open for callers that may want a part of the content: it is an [io.Seeker] if the store can open objects
// at an offset. Seek takes offsets within the content, from its start.
func OpenSeeker(ctx context.Context, store Store, name string) (io.ReadCloser, error) {
	body, err := store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if ranger, ok := store.(Ranger); ok {
		return &seeker{ReadCloser: body, ctx: ctx, store: ranger, name: name}, nil
	}
	return body, nil
}

// seeker is the content of an object, opened again where it is sought.
type seeker struct {
	io.ReadCloser
	ctx   context.Context // lives as long as the open object
	store Ranger
	name  string
}

// Seek implements [io.Seeker].
func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || offset < 0 {
		return 0, fmt.Errorf("seek object %s: no offset from its start", s.name)
	}
	body, err := s.store.OpenAt(s.ctx, s.name, offset)
	if err != nil {
		return 0, err
	}
	_ = s.Close() // it was only read
	s.ReadCloser = body
	return offset, nil
}
