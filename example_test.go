package batchfleet_test

import (
	"context"
	"io"
	"os"

	"github.com/batchfleet/batchfleet"
)

// A program whose workers run jobs of kind copy. It has all commands: try it with
//
//	go run . dev --kind copy FILE
func Example() {
	batchfleet.Main(batchfleet.Kind{Name: "copy", Run: func(_ context.Context, job *batchfleet.Job) error {
		in, err := os.Open(job.Input())
		if err != nil {
			return batchfleet.Final(err) // no other attempt would end better
		}
		defer in.Close()
		out, err := job.Create("copy") // closed and stored after the function has returned
		if err != nil {
			return err
		}
		n, err := io.Copy(out, in)
		job.Log("%d bytes", n)
		return err
	}})
}
