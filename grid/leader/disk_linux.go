package leader

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate makes a file that takes size bytes of the disk.
func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), 0, 0, size)
}
