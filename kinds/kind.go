// Package kinds reads the kinds file, in which people describe their own work: a
// [Kind] is a name, the program that runs its jobs, what that may use, and which
// parameters a job may have. Command lines, servers and workers read the same file: the
// first two check the parameters of a job with it, a worker runs the program.
//
// The package starts no program. Of the project it imports jobs and safefile.
package kinds

import (
	"regexp"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Kind is a kind of jobs. It does not change once it is read and its program looked for.
type Kind struct {
	Name        jobs.Kind
	Description string   // for people; may be empty
	Command     []string // the program and its arguments, with placeholders: see Argv

	// Outputs are patterns ([path.Match]) of the files that must be there at the end, each
	// of at least one. Other files are not kept. Empty for whatever there is, if anything.
	Outputs []string

	Timeout  time.Duration // of one attempt; 0 for the worker's own limit
	Memory   int64         // bytes of all processes together, or of each: see command.Limits.TotalMemory; 0 for no limit
	CPU      time.Duration // that each process may compute; 0 for no limit
	Disk     int64         // bytes of all files that an attempt has on the worker's disk, with its checkpoint
	MaxInput int64         // bytes of all inputs together
	MaxFiles int           // how many artifacts there may be

	Slots int // jobs at once in one worker; 0 for all slots of the worker
	GPUs  int // whole GPUs that a job holds

	Retries     int           // further attempts after a failure
	Backoff     time.Duration // before the first of them; it doubles each time
	BackoffMax  time.Duration
	RetryExit   []int // exit codes after which the job runs again even without Retries
	FinalExit   []int // exit codes after which it does not run again
	Progress    *regexp.Regexp
	OOM         *regexp.Regexp // of a line by which the program says that the memory of its GPU is used up
	Env         []string       // names of variables that are passed on from the worker
	AllowDash   bool           // values of parameters may begin with "-"
	KeepLog     bool           // the whole log is stored as artifact log.txt
	Checkpoints int64          // bytes of checkpoints that travel through the storage; 0 for none

	Params []Param // in the order of the file

	// Path is the absolute path of the program. It is empty until [Set.Executables] has
	// found it.
	Path string

	free bool // it takes any params
	at   int  // where the file has the program; of the kind if it has none
}

// Param is a parameter that a job of a kind may have.
type Param struct {
	Name        string
	Type        string // [String], [Integer], [Number], [Boolean] or [Enum]
	Description string
	Required    bool
	Default     any            // nil for none; of the Type: string, int64, float64, bool
	Min, Max    *float64       // of integers and numbers
	Pattern     *regexp.Regexp // matches a whole string or nothing
	PatternText string         // as the file has it
	MaxLength   int            // bytes of a string; 0 for [DefaultMaxLength]
	Values      []string       // of an enum
}
