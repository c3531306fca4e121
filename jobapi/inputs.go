package jobapi

import (
	"context"
	"io"
)

// Uploader is a Jobs whose inputs can be uploaded.
type Uploader interface {
	// StoreInput stores what r yields and returns the name by which a submission has it as its input. name is a file
	// name that the caller has chosen, for people. Nothing is kept when it fails.
	StoreInput(ctx context.Context, name string, r io.Reader) (object string, err error)
}
