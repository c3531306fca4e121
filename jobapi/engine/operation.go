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
	// Needless reports whether what the step would bring about is so already, and
	// why; if it is not, a reason says in a plan what Does cannot know, such as how
	// much there is to do. It changes nothing: a dry run asks it, too, for all steps at once, so an
	// error that an earlier step would mend is no error of a plan, which only shows
	// it; one that wraps [jobs.ErrUnavailable] is. Nil means that the step always runs.
	Needless func(ctx context.Context) (reason string, needless bool, err error)
	// Does says in a plan what the step would do.
	Does string
	// Run does it, and returns what it has done. It ends soon after ctx does. An
	// error fails the job; see [Failure].
	Run func(ctx context.Context, r Run) (message string, err error)
}
