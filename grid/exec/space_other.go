//go:build !unix

package exec

import (
	"errors"
	"syscall"
)

// space is not known here.
func (r *Runner) space() (free, all int64, err error) { return 0, 0, errors.ErrUnsupported }

func signalName(s syscall.Signal) string { return s.String() }
