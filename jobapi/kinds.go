package jobapi

import (
	"context"
	"encoding/json"
)

// Catalog is a Jobs that knows which kinds of jobs it takes.
type Catalog interface {
	// Kinds returns the kinds, by name: of this server's kinds file, built in, and those that live workers run.
	Kinds(ctx context.Context) ([]Kind, error)
}

// Kind is a kind of jobs on the wire.
type Kind struct {
	Name        string          `json:"name"` // without the scope
	Description string          `json:"description,omitempty"`
	Params      json.RawMessage `json:"params"` // a JSON Schema of an object; null where they are not known
	// Input is which inputs a job has: none, optional, one (required) or many (one or more).
	Input string `json:"input"`
	// Workers and Slots are those of live workers which run the kind. Slots may be shared between kinds.
	Workers int `json:"workers"`
	Slots   int `json:"slots"`
	// Cap is how many of its jobs a worker runs at once, if the kind says that.
	Cap int `json:"cap,omitempty"`
}
