// Package leader runs a leader of the grid: it takes jobs of clients, gives them to workers, and gives the results back.
//
// What it decides, package schedule decides. This package carries it out: frames over connections, records in a journal, large requests and
// results in files. One goroutine owns the state and takes events in batches. An answer that promises something, that a job is queued for good
// or what its result is, waits until the records of it are on disk; one write and sync serve all answers that wait at that time.
//
//	reader of a peer → events → loop: schedule.Core → frames to peers
//	                                               └→ journal → promises to peers
//
// Without a directory nothing is kept, and promises go out at once.
package leader
