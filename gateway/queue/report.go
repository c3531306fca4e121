package queue

import (
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Report is what [Queue.Fsck] has seen.
type Report struct {
	redisdb.Audit
	Queued  int `json:"queued"`  // entries of the queue
	Leased  int `json:"leased"`  // leases in the index
	Delayed int `json:"delayed"` // entries of the delay set
	Dead    int `json:"dead"`    // dead letters

	// ByState has the jobs by where they stand, where Jobs has them by their status on the wire.
	ByState map[string]int `json:"-"`
}

// The kinds of findings that do no harm: an entry that a lease will pass over, a
// dead letter that was not looked at until its job expired, and an expired job
// that the reaper will take off the lists.
const (
	staleEntry    = "stale entry"
	expiredLetter = "dead letter without a job"
	expiredEntry  = "listed without a job"
)

func newFinding(kind string, job jobs.ID, detail, done string) redisdb.Finding {
	return redisdb.Finding{Kind: kind, Job: job, Detail: detail, Done: done, Harmless: Harmless(kind)}
}

// Harmless reports whether findings of a kind may stay as they are.
func Harmless(kind string) bool {
	return kind == staleEntry || kind == expiredLetter || kind == expiredEntry
}
