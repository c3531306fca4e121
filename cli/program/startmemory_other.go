//go:build !linux

package program

import "runtime/debug"

// GiveBackStartMemory returns to the system what starting has taken.
func GiveBackStartMemory() { debug.FreeOSMemory() }
