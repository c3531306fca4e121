//go:build !unix

package journal

import (
	"errors"
	"os"
)

// flock cannot keep two processes apart here, so there is no journal.
func flock(*os.File) error { return errors.ErrUnsupported }
