package testnet

import "github.com/batchfleet/batchfleet/internal/pipenet"

// Pipes is a listener in memory.
type Pipes = pipenet.Listener

// NewPipes returns one.
func NewPipes() *Pipes { return pipenet.Listen() }
