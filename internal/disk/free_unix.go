//go:build unix

// Package disk tells how much space a disk has.
package disk

import "golang.org/x/sys/unix"

// Free returns how many bytes this user may still write to the disk of a directory; on systems other than Unix the largest int64.
func Free(dir string) (int64, error) {
	free, _, err := Space(dir)
	return free, err
}

// Space returns what Free does, and how many bytes the disk has in all. On systems other than Unix the error wraps [errors.ErrUnsupported].
func Space(dir string) (free, all int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), int64(fs.Blocks) * int64(fs.Bsize), nil //nolint:gosec,unconvert // their types differ between systems
}
