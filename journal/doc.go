// Package journal keeps records in a directory so that they outlive their
// process: an append-only log with checkpoints.
//
// [Open] replays the records of a directory and returns a [Journal].
// [Journal.Append] adds records to it, and [Journal.Commit] waits until they are
// written, or synced. The next Open replays what was committed: after kill -9,
// and if it was synced, after a power cut. It may also replay records that were
// appended and not committed. Records are replayed in the order in which they
// were appended.
//
// After a failed write or sync a journal stops: it leaves its files as they are
// and refuses all that follows with [ErrFailStop]. The kernel may drop what it
// could not sync and report success for the next sync of the same file, so a
// retry could confirm records that are lost. [Journal.Failed] tells the owner, who
// ends, and opens the directory again. What was committed with sync is then
// replayed; records that were only written may be lost. Records of the failed sync
// may be replayed although they are only in the memory of the kernel: a
// checkpoint, which is a new file, makes all that was replayed durable.
// [Options].RetryAfterFailure asks for retries instead.
//
// The log is a sequence of segments. From time to time the owner writes a
// checkpoint, the records of its whole state, and everything older is deleted:
//
//	segment.N.SALT.v1     records appended after checkpoint N; 1 needs no checkpoint
//	checkpoint.N.SALT.v1  the state when segment N began
//	checkpoint.….tmp      a checkpoint being written, or left by a crash
//	segment.….torn        what a crash left behind the last whole record
//	LOCK                  locked by the process that has the journal open
//
// A damaged journal can be opened. What cannot be read is skipped, and its position
// logged; a torn end, which a crash leaves, is cut off and kept beside the segment.
//
// A record is opaque to this package. When one in the middle is lost, apply is
// called with those behind it, and the owner decides what that means.
package journal
