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
	running                  // an attempt is with a worker, or was when the leader ended
	parent                   // an array that waits only for its jobs to end
	ended                    // its result is kept
	dead                     // so is its request
)

// job is kept small: there may be millions. What few of them have is in rare.
type job struct {
	id         wire.GUID
	seq        uint64 // counts all jobs, as they have come
	line       *line
	list       *list
	prev, next *job
	body       []byte // the request; the result of a job that has ended
	rare       *rare
	run        *attempt // while a worker has it
	owner      PeerID   // who has submitted it, if still connected
	born       Moment   // when it was submitted
	since      Moment   // when it came to where it is
	digest     uint32   // of the request; 0 if it is not known
	state      state
	outcome    jobs.State // of a job that has ended
	attempts   uint8      // that count: made again because a worker was lost or did not accept, or as the job has asked
	crashes    uint8      // workers lost while they ran it
}

// rare is what few jobs have.
type rare struct {
	opts     options
	timer    timer  // of a delay, or when it is too late to start
	notAfter Moment // 0 for none
	avoid    wire.GUID
	ref      wire.GUID // of the body, if it is stored elsewhere
	refSize  int
	blobs    []byte    // of the body
	attempt  wire.GUID // that was running when the leader ended
	waited   Moment    // for its worker to come back, by all leaders since; 0 if a worker has had it since the last start
	cutOff   wire.GUID // attempt that was counted as lost when a connection ended; its worker may come back with it
	cancel   bool      // it was asked to stop
	tied     *peer     // its end ends the job
	last     string
	history  []Attempt
	array    *array    // of an array, and of each of its jobs that it has not counted
	arrayID  wire.GUID // of a job of an array
	index    int64     // of a job of an array; -1 for others
	dead     *deadLetter
	log      *jobLog // what its worker has reported
}

// options are those of a request that matter here.
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

// Attempt is an attempt that did not end a job.
type Attempt struct {
	Number int
	Worker string // its host, or its id
	Reason string
	At     Moment
}

// maxHistory is how many of a job's last attempts are kept.
const maxHistory = 10

// more returns what few jobs have, which it then has.
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

// element returns the array that an open job is one of, and its index.
func (j *job) element() (*array, int64, bool) {
	if j.rare == nil || j.rare.array == nil || j.rare.index < 0 {
		return nil, 0, false
	}
	return j.rare.array, j.rare.index, true
}

// isOpen reports whether a job has not ended.
func (j *job) isOpen() bool { return j.state < ended }

// setBody puts a request or a result in place of what the job has.
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

// theBody is the request of a job that has not ended or is a dead letter, and the result of another.
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

// result is what the client of a job that has ended is sent.
func (j *job) result() Body {
	if j.state == dead {
		return Body{Bytes: j.rare.dead.result, Size: len(j.rare.dead.result)}
	}
	return j.theBody()
}

// unstore tells that a body that is stored elsewhere is no longer needed.
func (c *Core) unstore(b Body) {
	if !b.Ref.IsZero() {
		c.emit(Effect{Op: Forget, Body: b})
	}
}

// add makes a job known.
func (c *Core) add(j *job) {
	c.jobs[j.id] = j
	c.order.add(j)
	j.line.jobs++
	if j.isOpen() {
		c.open++
	}
}

// bornMs is when a job was submitted, as it is shown.
func (c *Core) bornMs(j *job) int64 { return c.cfg.Epoch.Add(j.born).UnixMilli() }

// forget deletes all that is known of a job that has ended.
func (c *Core) forget(j *job) {
	j.leave()
	c.trimLog(j, 0)
	c.unstore(j.theBody())
	c.setBody(j, Body{})
	delete(c.jobs, j.id)
	c.order.gone(j)
	c.leaveLine(j.line)
}
