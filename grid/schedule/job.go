package schedule

import (
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// state is where a job stands.
type state uint8

const (
	queued  state = iota + 1 // in the line of its client and exec
	delayed                  // between two attempts
	running                  // an attempt is with a worker
	parent                   // an array that waits only for its jobs to end
	ended                    // its result is kept
	dead                     // so is its request
)

// job is kept small: there may be millions. What few of them have is in rare.
type job struct {
	id         wire.GUID
	line       *line
	list       *list
	prev, next *job
	body       []byte // the request; the result of a job that has ended
	rare       *rare
	run        *attempt // while it is running
	digest     uint64   // of the request; 0 if it is not known
	owner      PeerID   // who has submitted it, if still connected
	born       Moment   // when it was submitted
	since      Moment   // when it came to where it is
	size       int32    // of the body
	state      state
	outcome    jobs.State // of a job that has ended
	attempts   uint8      // that count: made again because a worker was lost or did not accept, or as the job has asked
	crashes    uint8      // workers lost while they ran it
}

// rare is what few jobs have.
type rare struct {
	opts     wire.Options
	timer    timer  // of a delay, or when it is too late to start
	notAfter Moment // 0 for none
	avoid    wire.GUID
	ref      wire.GUID // of the body, if it is stored elsewhere
	attempt  wire.GUID // that was running when the leader ended
	cancel   bool      // it was asked to stop
	tied     bool      // to the connection of its client
	last     string
	history  []Attempt
	array    *array // of an array, and of each of its jobs
	index    int64  // of a job of an array; -1 for the array
	dead     *deadLetter
	log      *jobLog // what its worker has reported
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

func (j *job) options() *wire.Options {
	if j.rare == nil {
		return &noOptions
	}
	return &j.rare.opts
}

var noOptions wire.Options

func (j *job) canceled() bool { return j.rare != nil && j.rare.cancel }

// element returns the array that a job is one of, and its index.
func (j *job) element() (*array, int64, bool) {
	if j.rare == nil || j.rare.array == nil || j.rare.index < 0 {
		return nil, 0, false
	}
	return j.rare.array, j.rare.index, true
}

// isOpen reports whether a job has not ended.
func (j *job) isOpen() bool { return j.state < ended }

// attempt is a job in the hands of a worker.
type attempt struct {
	id       wire.GUID
	job      *job
	worker   *peer
	place    int // in worker.running
	number   int
	accepted bool
	began    Moment
	timer    timer
}

// setBody puts a request or a result in place of what the job has.
func (c *Core) setBody(j *job, b Body) {
	c.bytes += b.memory() - int64(len(j.body))
	j.body, j.size = b.Bytes, int32(b.Size)
	if j.rare != nil || !b.Ref.IsZero() {
		j.more().ref = b.Ref
	}
}

// theBody is the request of a job that has not ended or is a dead letter, and the result of another.
func (j *job) theBody() Body {
	b := Body{Bytes: j.body, Size: int(j.size)}
	if j.rare != nil {
		b.Ref = j.rare.ref
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

// unstore says that a body that is stored elsewhere is no longer needed.
func (c *Core) unstore(b Body) {
	if !b.Ref.IsZero() {
		c.emit(Effect{Op: Forget, Body: b})
	}
}

// add makes a job known.
func (c *Core) add(j *job) {
	c.jobs[j.id] = j
	c.order.add(j, c.bornMs)
	j.line.client.jobs++
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
	j.line.client.jobs--
	c.dropClient(j.line.client)
}
