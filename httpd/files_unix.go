//go:build unix

package httpd

import (
	"math"
	"syscall"
)

// openFiles returns how many files this process may have open.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 { //nolint:unconvert // its type differs between systems
		return math.MaxInt32
	}
	return int(limit.Cur) //nolint:gosec // not above MaxInt32
}
