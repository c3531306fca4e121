// Package leader runs a leader of the grid: it takes jobs of clients, gives them to workers, and sends the results back.
//
// Package schedule makes the decisions. This package carries them out: frames over connections, records in a journal, large requests and results in
// files. One goroutine owns the state and processes events in batches. An answer that is a promise (a job is queued for good, or this is its result)
// waits until its records are on disk; all answers that wait at one time share a write and a sync.
//
//	reader of a peer → events → loop: schedule.Core → frames to peers
//	                                               └→ journal → promises to peers
//
// Without a directory nothing is kept, and promises are sent at once.
package leader
