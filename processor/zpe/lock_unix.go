//go:build unix

package zpe

import (
	"os"
	"syscall"
)

// hold locks f until it is closed, also by the death of the process.
func hold(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// abandoned reports whether nobody holds f, and holds it.
func abandoned(f *os.File) bool { return hold(f) == nil }
