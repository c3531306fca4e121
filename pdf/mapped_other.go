//go:build !unix

package pdf

import (
	"errors"
	"os"
)

// mapFile always fails: the caller reads the file.
func mapFile(*os.File, int64) (data []byte, unmap func() error, err error) {
	return nil, nil, errors.ErrUnsupported
}
