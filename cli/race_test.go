//go:build race

package cli

// underRace makes the heaviest tests smaller: with the race detector a process
// needs ten times the CPU.
const underRace = true
