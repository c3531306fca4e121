// Package journal keeps records in a directory so that they outlive their
// process: an append-only log with checkpoints.
//
// A [Journal] is opened, which replays what is there; records are appended to
// it; and [Journal.Commit] waits until they are written, or synced. What was
// committed is replayed by the next [Open]: after kill -9, and if it was synced,
// after a power cut. Records that were appended and not committed may be
// replayed too. Records come back in the order in which they were appended.
//
// The log is a row of segments. Now and then the owner writes a checkpoint, the
// records of its whole state, and everything older is deleted:
//
//	segment.N.SALT.v1     records appended since checkpoint N (or since ever)
//	checkpoint.N.SALT.v1  the state when segment N began
//	checkpoint.….tmp      a checkpoint being written, or left by a crash
//	segment.….torn        what a crash left behind the last whole record
//	LOCK                  locked by the process that has the journal open
//
// Damage does not keep a journal from opening. What cannot be read is skipped,
// and logged with its place; a torn end, which a crash leaves, is cut off and
// kept beside the segment.
//
// A record is opaque to this package, and so is what it means to lose one in
// the middle: apply sees the records behind it.
package journal
