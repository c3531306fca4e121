// Package schedule decides what a leader of the grid does: which worker gets which job, what happens when peers connect and are lost, which result
// counts, and what is kept. It is a state machine: it does no I/O, starts no goroutine and reads no clock.
//
//	event (Submit, Credit, Ack, Gone, Tick …) → Core → effects (frames to send) and records (for a journal)
//
// The caller calls one method at a time, with the time since its start, and then takes the effects with [Core.Take]. Some effects are promises, see
// [Op.Promises]: they may be carried out only when the records that were taken with them are on disk.
//
// A job is queued in the line of its client and exec. Execs that have jobs and a worker with credit are served in turn, one job each, of the next
// client that is below its cap. So a step costs the same however many jobs wait.
package schedule
