package batchfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/batchfleet/batchfleet/cli"
	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// Kind is a kind of jobs whose work is a function of this program.
type Kind struct {
	// Name is what jobs ask for: lower-case letters, digits and "-", at most 32, a letter first.
	Name        string
	Description string // for people
	// Run does one job. It may be called concurrently, and again for a job that an earlier attempt
	// has begun. It returns soon after ctx ends. An error fails the attempt, as a panic does: the
	// job runs again if Retries allow it, see also [Final] and [RetryAfter].
	Run func(ctx context.Context, job *Job) error

	Timeout time.Duration // of one attempt; 0 for the worker's JOB_TIMEOUT
	Slots   int           // jobs at once in one worker; 0 for all slots of the worker
	GPUs    int           // whole GPUs that a job holds, see Job.GPUs

	Retries    int           // further attempts after a failure, at most 100
	Backoff    time.Duration // before the first of them, it doubles each time; 10 s when 0
	MaxBackoff time.Duration // 10 min when 0

	MaxInput int64 // bytes of all inputs together; 1 GiB when 0
	// MaxCheckpoint is how many bytes of checkpoints go through the storage, so that an attempt on
	// another machine finds them; 0 for none.
	MaxCheckpoint int64
}

// Main is the main function of a program that runs jobs of these kinds beside those of batchfleet:
// it has all commands of batchfleet, each of which knows the kinds. It does not return.
func Main(all ...Kind) {
	var built []own.Kind
	var wrong []error
	for _, k := range all {
		described := k.describe()
		err := described.Check()
		if err == nil && k.Run == nil {
			err = errors.New("it has no function Run")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("kind %q: %w", k.Name, err))
		}
		built = append(built, own.Kind{Kind: described, Do: k.do})
	}
	if err := errors.Join(wrong...); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(2)
	}
	os.Exit(cli.Run(os.Args[1:], "", built...))
}

// describe returns the kind as the kinds file would have it.
func (k Kind) describe() *kinds.Kind {
	d := kinds.Own(jobs.Kind(k.Name))
	d.Description, d.Timeout, d.Slots, d.GPUs, d.Retries = k.Description, k.Timeout, k.Slots, k.GPUs, k.Retries
	set(&d.Backoff, k.Backoff)
	set(&d.BackoffMax, k.MaxBackoff)
	set(&d.MaxInput, k.MaxInput)
	set(&d.Checkpoints, k.MaxCheckpoint)
	return d
}

// set replaces what is at p unless v is zero.
func set[T comparable](p *T, v T) {
	var zero T
	if v != zero {
		*p = v
	}
}
