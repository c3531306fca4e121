package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes what was written to f survive a power cut. Unlike f.Sync it
// leaves out what reading does not need, such as the time of change.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
