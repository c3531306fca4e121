package jobs

import "time"

// Lease is the right to run one job until a moment in time, handed out by a
// queue. Its holder extends it, and ends it with an ack or a nack.
type Lease struct {
	ID    string    // the queue's own name for this delivery
	Job   Job       // what to run; without an ID when the message names no job, see Invalid
	Until time.Time // when the queue will give the job to someone else
	// TTL is how long an extension makes the lease last, where the queue decides
	// it; 0 when the worker does.
	TTL time.Duration
	// Delivery counts how often the queue has handed this job out, from 1;
	// 0 when the queue does not count.
	Delivery int
	// Invalid is why the job cannot run, known from its message alone. The
	// failure can be recorded unless the job has no ID.
	Invalid error
	Raw     Raw
}

// Raw is the message behind a lease as the queue carried it, so that it can be passed
// on unchanged. It must not be modified.
type Raw struct {
	ID         string // the queue's own name for the message, the same in every delivery
	Queue      string // where it was taken from
	Ack        string // by which another worker may hand this delivery back; empty if it cannot
	Data       []byte
	Attributes map[string]string
}

// Verdict is the answer to a claim.
type Verdict uint8

// The verdicts on a claim.
const (
	Granted   Verdict = iota + 1 // run the job; Token fences its writes
	Ended                        // the job has a recorded outcome already, in State
	Busy                         // another worker runs it; ask again after Wait
	CrashLoop                    // its worker has crashed Crashes times; record it as failed
	Waiting                      // its last attempt has failed; the next one begins after Wait
)

// ClaimHold is how long a claim outlives the last report on its job. Then its worker
// counts as silent: others hand back the lease, and the job starts again elsewhere.
const ClaimHold = 15 * time.Second

// Claim is what a worker learns when it asks to be the only one to run a job.
// A claim with verdict Granted or CrashLoop entitles its holder to record the
// job's outcome; every write that carries its Token is refused once another
// worker has been granted a claim on the same job.
type Claim struct {
	Verdict Verdict
	Job     ID
	Token   string // the fence
	Attempt int    // which start of the job this is, from 1; for Ended: how many there were
	Crashes int    // earlier starts whose worker never came back
	// Failures counts earlier attempts that failed and were to be made again: see Failure.Retry.
	Failures int
	State    State         // for Ended: the outcome on record
	Reason   string        // for Ended as Failed: why, as it is on record
	Wait     time.Duration // for Busy: how long the other worker's claim still holds; for Waiting: see there
	// How another worker hands back the lease of a lost worker: see [Raw].
	Queue, Ack string
}
