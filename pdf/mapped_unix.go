//go:build unix

package pdf

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

// mapFile returns the first size bytes of f as memory, and how to give it back.
func mapFile(f *os.File, size int64) (data []byte, unmap func() error, err error) {
	if size > math.MaxInt {
		return nil, nil, fmt.Errorf("map %d bytes: more than there are addresses", size)
	}
	data, err = syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map file: %w", err)
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}
