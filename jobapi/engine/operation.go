package engine

import (
	"context"

	"github.com/batchfleet/batchfleet/jobapi"
)

// Operation is what jobs of one type do.
type Operation struct {
	Name string // "start"; with the scope it is the type: system.start
	Load bool   // it puts load on the fleet; such operations have a limit of their own
	New  func() Request
}

// Request is a request of an operation. Each job has one of its own, so its steps
// may share state in it.
type Request interface {
	jobapi.Request
	// Echo returns what of the request a job shows, for JSON: an object with the
	// fields that are known to hold no secret, and counts of the others.
	Echo() any
	// Steps returns what is to be done, in order. It is called once, after Check.
	Steps() []Step
}

// Step is a part of an operation.
type Step struct {
	Name string
	// AlreadyDone reports whether the step has nothing to do, and why. If it has
	// something to do, a reason adds to a plan what Description cannot know, such as
	// how much there is to do. It changes nothing. A dry run asks all steps at once:
	// an error that an earlier step would repair is only shown in the plan, one that
	// wraps [jobs.ErrUnavailable] fails it. Nil means that the step always runs.
	AlreadyDone func(ctx context.Context) (reason string, done bool, err error)
	// Description says in a plan what the step would do.
	Description string
	// Run does it, and returns what it has done. It ends soon after ctx does. An
	// error fails the job; see [Failure].
	Run func(ctx context.Context, r Run) (message string, err error)
}
