package queue

import "github.com/batchfleet/batchfleet/jobs"

// Report is what [Queue.Fsck] has seen.
type Report struct {
	Jobs      map[string]int `json:"jobs"`      // jobs by their status
	Queued    int            `json:"queued"`    // entries of the queue
	Leased    int            `json:"leased"`    // leases in the index
	Delayed   int            `json:"delayed"`   // entries of the delay set
	Dead      int            `json:"dead"`      // dead letters
	Counts    map[string]int `json:"counts"`    // findings by their kind
	Findings  []Finding      `json:"findings"`  // the first maxFindings of them, harmless ones half of that at most; never nil
	Unchecked int            `json:"unchecked"` // suspects left for another run
	Left      int            `json:"left"`      // findings that are neither harmless nor repaired
}

// Finding is something that is not as it should be.
type Finding struct {
	Kind   string  `json:"kind"` // such as "started without lease"; SPEC.md lists them
	Job    jobs.ID `json:"job_id"`
	Detail string  `json:"detail"`
	Done   string  `json:"done"` // how it was repaired; empty if it was not
}

// The kinds of findings that do no harm: an entry that a lease will pass over, a
// dead letter that nobody has looked at until its job expired, and an expired job
// that the reaper will take off the lists.
const (
	staleEntry    = "stale entry"
	expiredLetter = "dead letter without a job"
	expiredEntry  = "listed without a job"
)

// Harmless reports whether the finding may stay as it is.
func (f Finding) Harmless() bool { return harmless(f.Kind) }

func harmless(kind string) bool {
	return kind == staleEntry || kind == expiredLetter || kind == expiredEntry
}
