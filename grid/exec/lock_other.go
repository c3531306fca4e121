//go:build !unix

package exec

import (
	"errors"
	"os"
)

// errGone is for systems that lock directories.
var errGone = errors.New("directory was deleted")

// lockDir locks nothing: directories cannot be locked here. So two workers must not have one directory of jobs.
func lockDir(path string) (*os.File, error) { return os.Open(path) }
