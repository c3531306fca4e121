// Command noopkind is batchfleet with a kind that does nothing, to measure what a job costs beside
// its work.
package main

import (
	"context"

	"github.com/batchfleet/batchfleet"
)

func main() {
	batchfleet.Main(batchfleet.Kind{
		Name: "noop", Description: "nothing",
		Run: func(context.Context, *batchfleet.Job) error { return nil },
	})
}
