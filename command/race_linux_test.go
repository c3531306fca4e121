//go:build race

package command_test

// The race detector's own memory counts too: about 350 MB.
func init() { raceMemory, outOfMemory = 512<<20, 66 }
