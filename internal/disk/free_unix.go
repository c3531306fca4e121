//go:build unix

// Package disk tells how much space a disk has.
package disk

import "golang.org/x/sys/unix"

// Free returns how many bytes this user may still write to the disk of a directory; on systems other than Unix the largest int64.
func Free(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:gosec,unconvert // their types differ between systems
}
