//go:build !race

package testrun

// Race says that the race detector is on. A process then needs some ten times the CPU.
const Race = false
