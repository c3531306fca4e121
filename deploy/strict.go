//go:build ignore

// Command strict reads a Cloud Run manifest as JSON from stdin and fails if it
// has a field, or a type of value, that Google's API does not know. The argument
// is the manifest's kind.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/api/run/v1"
)

func main() {
	kinds := map[string]any{"Job": new(run.Job), "WorkerPool": new(run.WorkerPool)}
	if len(os.Args) != 2 || kinds[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: strict Job|WorkerPool < manifest.json")
		os.Exit(2)
	}
	dec := json.NewDecoder(os.Stdin)
	dec.DisallowUnknownFields()
	if err := dec.Decode(kinds[os.Args[1]]); err != nil {
		fmt.Fprintf(os.Stderr, "decode %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
