// Package schedule decides what a leader of the grid does: which worker gets which job of which client, what happens when workers,
// clients and results come and go, and what is kept. It is a state machine: it does no I/O, starts no goroutine and reads no clock.
//
//	event (Submit, Credit, Ack, Gone, Tick …) → Core → effects (frames to send) and records (for a journal)
//
// The caller calls one method at a time, with the time since it has started, and then takes the effects with [Core.Take]. Effects that
// promise something are marked: they may be carried out only when the records that were taken with them are on disk.
//
// A job is queued in the line of its client and exec. An exec that has jobs, and a worker with credit, is served in turn: one job, of the next
// client that has room under its cap. So a step costs the same however many jobs wait.
package schedule
