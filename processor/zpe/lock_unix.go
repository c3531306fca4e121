//go:build unix

package zpe

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks f until it is closed, also by the death of the process, and
// reports false if another has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// abandoned reports whether nobody has locked f, and locks it.
func abandoned(f *os.File) bool {
	free, err := tryLock(f)
	return free && err == nil
}
