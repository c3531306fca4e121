package jobs

import "time"

// Attempt is one attempt at a job, as what runs it sees it.
type Attempt struct {
	Job      Job
	Slot     Slot
	Number   int       // which start of the job this is, from 1
	Failures int       // how many earlier attempts have failed and were to be made again
	Deadline time.Time // when the attempt will be told to stop
	// Report records progress. It never blocks and may be called concurrently.
	Report func(Progress)
	// Log adds a line to the job's log. It never blocks and may be called concurrently. Of
	// lines that come faster than they can be written, some are left out.
	Log func(line string)
}

// Slot is the room for one job in a worker.
type Slot struct {
	Pool string // the name of its pool
	// GPUs are the indices of GPUs that no other job of this worker uses; empty in a
	// pool without.
	GPUs []int
}
