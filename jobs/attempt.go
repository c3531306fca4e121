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
	// Log adds a line to the job's log, cut and made visible as [LogLine] does. It never
	// blocks and may be called concurrently, as often as it likes: the first 200 lines or
	// 64 KiB of an attempt are written, then on average 100 lines or 16 KiB a second, the
	// newest of them, and the last. In place of others a line says how many were left out.
	Log func(line string)
}

// Slot is the room for one job in a worker.
type Slot struct {
	Pool string // the name of its pool
	// GPUs are the indices of GPUs that no other job of this worker uses; empty in a
	// pool without.
	GPUs []int
}
