//go:build !linux

package leader

// allocate makes no file here.
func allocate(string, int64) error { return nil }
