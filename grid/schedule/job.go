package schedule

import (
	"maps"
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// state is where a job stands.
type state uint8

const (
	queued  state = iota + 1 // in the line of its client and exec
	delayed                  // between two attempts
	running                  // a worker has an attempt, or had one when an earlier leader ended
	parent                   // an array that only waits for its elements to end
	ended                    // its result is kept
	dead                     // a dead letter: its request is kept as well
)

// job is kept small: there may be millions. Fields that few jobs need are in rare.
type job struct {
	id         wire.GUID
	seq        uint64 // number of the job, in the order of submission
	line       *line
	list       *list
	prev, next *job
	body       []byte // the request; the result of a job that has ended
	rare       *rare
	run        *attempt // while a worker has it
	owner      PeerID   // the connection that has submitted it, if still open
	born       Moment   // when it was submitted
	since      Moment   // when it got its state
	digest     uint32   // of the request; 0 if it is not known
	state      state
	outcome    jobs.State // of a job that has ended
	attempts   uint8      // attempts that count and have not ended it: the worker was lost or did not accept, or RetryOn has the reason
	crashes    uint8      // workers that lost their connection while they ran it
}

// rare has the fields that few jobs need.
type rare struct {
	opts       options
	timer      timer  // end of a delay, or NotAfter
	notAfter   Moment // 0 for none
	avoid      wire.GUID
	handedBack uint8     // times, up to handBacksAtOnce
	ref        wire.GUID // of the body, if it is stored outside the state
	refSize    int
	blobs      []byte    // of the body
	attempt    wire.GUID // that ran when an earlier leader ended
	waited     Moment    // for its worker to come back, by all leaders since; 0 if a worker has had it since the last start
	cutOff     wire.GUID // attempt that was counted as lost when a connection ended; its worker may come back with it
	cancel     bool      // it was canceled, and may still run
	tied       *peer     // the connection that the job ends with
	last       string
	history    []Attempt
	array      *array    // of an array, and of each element that it has not counted
	arrayID    wire.GUID // of an element
	index      int64     // of an element; -1 for other jobs
	dead       *deadLetter
	log        *jobLog // reports of its worker
}

// options are the options of a request that this package uses.
type options struct {
	timeout                 Moment // of an attempt; 0 for none
	maxAttempts             uint8  // 0 for the leader's number
	priority                int8
	retryExit, retryTimeout bool
	tie                     bool // to the connection of its client
}

func optionsOf(o *wire.Options) options {
	return options{
		timeout: Moment(min(max(0, o.TimeoutMs), wire.MaxTimeout.Milliseconds())) * 1e6, maxAttempts: uint8(min(max(0, o.MaxAttempts), wire.MaxAttempts)),
		priority:  int8(min(max(-wire.MaxPriority, o.Priority), wire.MaxPriority)),
		retryExit: slices.Contains(o.RetryOn, wire.ReasonExit), retryTimeout: slices.Contains(o.RetryOn, wire.ReasonTimeout), tie: o.OnDisconnect != "",
	}
}

// retries reports whether a job wants another attempt after a failure.
func (o *options) retries(reason string) bool {
	return o.retryExit && reason == wire.ReasonExit || o.retryTimeout && reason == wire.ReasonTimeout
}

// Attempt is an attempt that has not ended its job.
type Attempt struct {
	Number int
	Worker string // its host, or its id
	Reason string
	At     Moment
	ended  *Ended // what its worker has sent; nil for a lost one, and in a history
}

// Reasons of attempts that were lost, and have not failed: all but the one for a worker that says nothing of its jobs begin with LostPrefix.
const (
	LostPrefix    = "its worker "
	ReasonTooLong = "it took too long"
)

// maxHistory is how many of a job's last attempts are kept.
const maxHistory = 10

// more returns the rare fields of a job, and makes them if there are none.
func (j *job) more() *rare {
	if j.rare == nil {
		j.rare = &rare{index: -1}
		j.rare.timer.job = j
	}
	return j.rare
}

func (j *job) options() *options {
	if j.rare == nil {
		return &noOptions
	}
	return &j.rare.opts
}

var noOptions options

func (j *job) canceled() bool { return j.rare != nil && j.rare.cancel }

// isArray reports whether a job is an array.
func (j *job) isArray() bool { return j.rare != nil && j.rare.array != nil && j.rare.index < 0 }

// element returns the array and the index of an element that has not ended. It reports false for other jobs.
func (j *job) element() (*array, int64, bool) {
	if j.rare == nil || j.rare.array == nil || j.rare.index < 0 {
		return nil, 0, false
	}
	return j.rare.array, j.rare.index, true
}

// isOpen reports whether a job has not ended.
func (j *job) isOpen() bool { return j.state < ended }

// setBody replaces the request or result of a job.
func (c *Core) setBody(j *job, b Body) {
	c.bytes += b.memory() - j.theBody().memory()
	j.body = b.Bytes
	if j.rare == nil && (b.Bytes != nil || b.Size == 0) && len(b.Blobs) == 0 {
		return
	}
	r := j.more()
	c.needBlobs(b.Blobs, 1)
	c.needBlobs(r.blobs, -1)
	r.ref, r.refSize, r.blobs = b.Ref, b.Size, b.Blobs
}

// needBlobs counts that n requests more need these blobs.
func (c *Core) needBlobs(blobs []byte, n int) {
	for digest := range slices.Chunk(blobs, 32) {
		key := [32]byte(digest)
		if c.blobs[key] += n; c.blobs[key] == 0 {
			delete(c.blobs, key)
		}
	}
}

// Blobs returns the SHA-256 of all blobs that are needed by jobs which have not ended, or are dead letters.
func (c *Core) Blobs() [][32]byte { return slices.Collect(maps.Keys(c.blobs)) }

// theBody returns the request of a job that has not ended or is a dead letter, and the result of any other job.
func (j *job) theBody() Body {
	b := Body{Bytes: j.body, Size: len(j.body)}
	if b.Bytes == nil && j.rare != nil {
		b.Ref, b.Size = j.rare.ref, j.rare.refSize
	}
	if j.rare != nil {
		b.Blobs = j.rare.blobs
	}
	return b
}

// result returns the result of a job that has ended.
func (j *job) result() Body {
	if j.state == dead {
		return Body{Bytes: j.rare.dead.result, Size: len(j.rare.dead.result)}
	}
	return j.theBody()
}

// unstore tells the caller that a stored body is no longer needed.
func (c *Core) unstore(b Body) {
	if !b.Ref.IsZero() {
		c.emit(Effect{Op: Forget, Body: b})
	}
}

// add adds a job to the state.
func (c *Core) add(j *job) {
	c.jobs[j.id] = j
	c.order.add(j, c.bornMs(j))
	j.line.jobs++
	if j.isOpen() {
		c.open++
	}
	c.moved(j, 0)
}

// bornMs returns when a job was submitted, in Unix milliseconds, as the Job API shows it.
func (c *Core) bornMs(j *job) int64 { return c.cfg.Epoch.Add(j.born).UnixMilli() }

// forget removes a job that has ended from the state.
func (c *Core) forget(j *job) {
	j.leave()
	c.trimLog(j, 0)
	c.unstore(j.theBody())
	c.setBody(j, Body{})
	delete(c.jobs, j.id)
	before := j.jobState()
	c.order.gone(j, c.bornMs)
	c.moved(j, before)
	c.leaveLine(j.line)
}
