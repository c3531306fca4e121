//go:build unix

package relay

import "golang.org/x/sys/unix"

// freeBytes returns how many bytes the relay may still write to the disk of a directory.
func freeBytes(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:gosec,unconvert // their types differ between systems
}
