package redisdb

import "github.com/batchfleet/batchfleet/jobs"

// Audit is what a look at all jobs of a store has found, for people and as JSON.
type Audit struct {
	Jobs      map[string]int `json:"jobs"`      // jobs by their state
	Counts    map[string]int `json:"counts"`    // findings by their kind
	Findings  []Finding      `json:"findings"`  // the first of them, harmless ones half of the room at most; never nil
	Harmless  int            `json:"harmless"`  // findings that are harmless and not repaired
	Left      int            `json:"left"`      // findings that are neither harmless nor repaired
	Unchecked int            `json:"unchecked"` // suspects left for another run

	room, harmlessListed int
}

// Finding is something that is not as it should be. The SPEC.md of its store lists the
// kinds.
type Finding struct {
	Kind   string  `json:"kind"`
	Job    jobs.ID `json:"jobId"`
	Detail string  `json:"detail"`
	Done   string  `json:"done"` // how it was repaired; empty if it was not

	Harmless bool `json:"-"` // it may stay as it is
}

// NewAudit returns an audit that lists at most room findings, and counts all.
func NewAudit(room int) Audit {
	return Audit{Jobs: map[string]int{}, Counts: map[string]int{}, Findings: []Finding{}, room: room}
}

// Add counts a finding, and lists it while there is room.
func (a *Audit) Add(f Finding) {
	a.Counts[f.Kind]++
	switch {
	case f.Done != "":
	case f.Harmless:
		a.Harmless++
	default:
		a.Left++
	}
	if !HasRoom(len(a.Findings), a.harmlessListed, a.room, f.Harmless) {
		return
	}
	if f.Harmless {
		a.harmlessListed++
	}
	a.Findings = append(a.Findings, f)
}

// HasRoom reports whether one more may join a list of at most room, which holds so many
// with the number of harmless ones. Those take half of it at most: they must not hide damage.
func HasRoom(n, harmlessOnes, room int, harmless bool) bool {
	return n < room && (!harmless || harmlessOnes < room/2)
}
