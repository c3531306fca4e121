//go:build !linux

package journal

import "os"

// datasync makes what was written to f survive a power cut.
func datasync(f *os.File) error { return f.Sync() }
