//go:build unix

package gateway

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock on an open file, or returns errLocked. The system
// gives it back when the process ends, however it ends.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
