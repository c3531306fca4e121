package processor

import (
	"context"
	"io"

	"github.com/batchfleet/batchfleet/storage/object"
)

// Store is what the page loop needs of a storage.Store, which says what the
// methods promise. It is not imported, because what talks to Cloud Storage takes
// longer to start than a page takes to read, and a child has no use for it.
type Store interface {
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	Put(ctx context.Context, name string, r io.Reader) error
	Delete(ctx context.Context, name string) error
	Walk(ctx context.Context, prefix string, visit object.Visit) error
}
