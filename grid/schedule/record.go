package schedule

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// Record is a change, as a journal keeps it.
type Record []byte

// The kinds of records.
const (
	recSubmit    = 1
	recStart     = 2
	recBack      = 3
	recEnd       = 4
	recDead      = 5
	recDelivered = 6
	recRequeue   = 7
	recDrop      = 8
	recCap       = 9
	recCancel    = 10
	recArray     = 11 // how far an array has come; only in a checkpoint
	recEpoch     = 12
	recWaited    = 13
	recPause     = 14
)

// write adds a record of a job for [Core.Take].
func (c *Core) write(j *job, record func(to Record, j *job) Record) {
	if !c.replaying && !c.cfg.NoRecords {
		c.keep(record(c.buf, j))
	}
}

func (c *Core) writeCap(cl *client) {
	if !c.replaying && !c.cfg.NoRecords {
		c.keep(capRecord(c.buf, cl.name, cl.cap))
	}
}

// keep makes the bytes that were appended to the buffer a record.
func (c *Core) keep(buf []byte) {
	from := len(c.buf)
	c.buf = buf
	c.record = append(c.record, buf[from:len(buf):len(buf)])
}

// Fields: a GUID has 16 bytes, a number is a varint, a text its length and its bytes.
func (r Record) kind(k byte) Record      { return append(r, k) }
func (r Record) guid(g wire.GUID) Record { return append(r, g[:]...) }
func (r Record) number(n int64) Record   { return binary.AppendVarint(r, n) }
func (r Record) text(s string) Record    { return append(r.number(int64(len(s))), s...) }
func (r Record) body(b Body) Record {
	r = r.number(int64(b.Size))
	kind := byte(0)
	if b.Bytes == nil && b.Size > 0 {
		kind = bodyStored
	}
	if len(b.Blobs) > 0 {
		r = r.kind(kind | bodyBlobs).text(string(b.Blobs))
	} else {
		r = r.kind(kind)
	}
	if kind == bodyStored {
		return r.guid(b.Ref)
	}
	return append(r, b.Bytes...) // the last field
}

// Bits of the kind of a body.
const (
	bodyStored = 1 << iota
	bodyBlobs
)

// place writes the index of an element + 1, negative if its array has counted it, and the array; 0 for other jobs.
func (r Record) place(j *job) Record {
	if j.rare == nil || j.rare.index < 0 {
		return r.number(0)
	}
	n := j.rare.index + 1
	if j.rare.array == nil {
		n = -n
	}
	return r.number(n).guid(j.rare.arrayID)
}

func submitRecord(r Record, j *job) Record {
	r = r.kind(recSubmit).guid(j.id).number(int64(j.digest)).number(int64(j.born)).text(j.line.client.name).text(j.line.exec.key.name)
	r = r.place(j).options(j)
	return r.body(j.theBody())
}

// options writes the options of a request, and the indexes of an array.
func (r Record) options(j *job) Record {
	if j.rare == nil {
		return r.number(0)
	}
	o, has := &j.rare.opts, int64(hasOptions)
	for _, flag := range []struct {
		set bool
		bit int64
	}{{o.retryExit, hasRetryExit}, {o.retryTimeout, hasRetryTimeout}, {o.tie, hasTie}, {j.isArray(), hasArray}} {
		if flag.set {
			has |= flag.bit
		}
	}
	r = r.number(has).number(int64(o.timeout)).number(int64(o.maxAttempts)).number(int64(o.priority) + wire.MaxPriority)
	if j.rare.notAfter > 0 {
		r = r.number(1).number(int64(j.rare.notAfter))
	} else {
		r = r.number(0)
	}
	if j.isArray() {
		r = r.number(j.rare.array.first).number(j.rare.array.last)
	}
	return r
}

// Bits of the first number of options.
const (
	hasOptions = 1 << iota
	hasRetryExit
	hasRetryTimeout
	hasTie
	hasArray
	optionsEnd
)

// startRecord has the attempt of a job: the current one, or the one of an earlier leader.
func startRecord(r Record, j *job) Record {
	r = r.kind(recStart).guid(j.id)
	if a := j.run; a != nil {
		return r.guid(a.id).guid(a.worker.worker).text(a.worker.host).place(j).number(0)
	}
	return r.guid(j.rare.attempt).guid(j.rare.avoid).text(j.rare.last).place(j).number(int64(j.rare.waited))
}

func backRecord(r Record, j *job, a Attempt) Record {
	r = r.kind(recBack).guid(j.id).guid(j.rare.avoid)
	return r.tried(j, a).place(j)
}

// tried writes an attempt, and how many there were.
func (r Record) tried(j *job, a Attempt) Record {
	r = r.number(int64(j.attempts)).number(int64(j.crashes))
	return r.number(int64(a.Number)).number(int64(a.At)).text(a.Worker).text(a.Reason)
}

func endRecord(r Record, j *job) Record {
	var last string
	if j.rare != nil {
		last = j.rare.last
	}
	r = r.kind(recEnd).guid(j.id).number(int64(j.outcome)).number(int64(j.born)).number(int64(j.since)).number(int64(j.digest))
	return r.text(j.line.client.name).text(j.line.exec.key.name).text(last).place(j).body(j.theBody())
}

func deadRecord(r Record, j *job) Record {
	d := j.rare.dead
	var last Attempt
	if n := len(j.rare.history); n > 0 {
		last = j.rare.history[n-1]
	}
	r = r.kind(recDead).guid(j.id).number(int64(j.since)).text(d.reason).tried(j, last)
	return r.place(j).body(Body{Bytes: d.result, Size: len(d.result)})
}

func deliveredRecord(r Record, j *job) Record { return r.kind(recDelivered).guid(j.id) }
func requeueRecord(r Record, j *job) Record   { return r.kind(recRequeue).guid(j.id) }
func dropRecord(r Record, j *job) Record      { return r.kind(recDrop).guid(j.id) }
func cancelRecord(r Record, j *job) Record    { return r.kind(recCancel).guid(j.id).text(j.rare.last) }

func arrayRecord(r Record, j *job) Record {
	a := j.rare.array
	return r.kind(recArray).guid(j.id).number(a.next).number(a.ended).number(a.failed)
}

func capRecord(r Record, client string, n int) Record {
	return r.kind(recCap).text(client).number(int64(n))
}

// pauseRecord has the exec that was paused, and when, in Unix milliseconds; 0 if that has ended.
func pauseRecord(r Record, exec string, at int64) Record {
	return r.kind(recPause).text(exec).number(at)
}

// epochRecord has the time that the moments of the records after it are counted from.
func epochRecord(r Record, c *Core) Record { return r.kind(recEpoch).number(c.cfg.Epoch.UnixNano()) }

// waitedRecord tells how long, since the last such record, jobs have waited for their workers that none has had since the last epoch.
func waitedRecord(r Record, d Moment) Record { return r.kind(recWaited).number(int64(d)) }

// errRecord means that a record cannot be read.
var errRecord = errors.New("damaged record of the grid")

// reading is a record that is being read. After a mistake all further fields are zero.
type reading struct {
	rest []byte
	bad  bool
}

func (r *reading) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, n = true, 0
		r.rest = nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reading) guid() (g wire.GUID) {
	copy(g[:], r.take(16))
	return g
}

func (r *reading) number() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.bad = true
		r.rest = nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// small reads a number from 0 to limit.
func (r *reading) small(limit int64) int64 {
	n := r.number()
	if n < 0 || n > limit {
		r.bad = true
		return 0
	}
	return n
}

func (r *reading) text() string { return string(r.take(int(r.small(math.MaxInt32)))) }

// name reads a text that is often the same as the one before, whose memory it then uses.
func (r *reading) name(before *string) string {
	if b := r.take(int(r.small(math.MaxInt32))); string(b) != *before {
		*before = string(b)
	}
	return *before
}

// moment reads a time before the start of this leader.
func (r *reading) moment(c *Core) Moment { return min(r.shifted(c), c.now) }

func (r *reading) shifted(c *Core) Moment {
	return min(max(-maxMoment, Moment(r.number())), maxMoment) + min(max(-maxMoment, c.shift), maxMoment)
}

func (r *reading) body() Body {
	b := Body{Size: int(r.small(math.MaxInt32))}
	kind := byte(0xff)
	if k := r.take(1); len(k) > 0 {
		kind = k[0]
	}
	if kind&^bodyStored == bodyBlobs {
		kind &= bodyStored
		b.Blobs = []byte(r.text())
	}
	switch {
	case len(b.Blobs)%32 != 0:
		r.bad = true
	case kind == bodyStored:
		b.Ref = r.guid()
	case kind == 0 && len(r.rest) == b.Size:
		b.Bytes = append([]byte(nil), r.take(b.Size)...)
		if b.Bytes == nil {
			b.Bytes = []byte{}
		}
	default:
		r.bad = true
	}
	return b
}

// tried reads what [Record.tried] has written.
func (r *reading) tried(c *Core) (attempts, crashes uint8, last Attempt) {
	attempts, crashes = uint8(r.small(wire.MaxAttempts)), uint8(r.small(wire.MaxAttempts))
	return attempts, crashes, Attempt{Number: int(r.small(wire.MaxAttempts)), At: r.moment(c), Worker: r.text(), Reason: r.text()}
}

// setTried sets the attempts of a job.
func (j *job) setTried(attempts, crashes uint8, last Attempt) {
	j.attempts, j.crashes = attempts, crashes
	if m := j.more(); last.Number > 0 {
		m.history = append(m.history, last)
	}
}

// place is the array and index of an element; the index of other jobs is -1.
type place struct {
	array   wire.GUID
	index   int64
	counted bool // by the array
}

func (r *reading) place() place {
	n := r.number()
	if n == 0 || n == math.MinInt64 {
		return place{index: -1}
	}
	return place{array: r.guid(), index: max(n, -n) - 1, counted: n < 0}
}

func (r *reading) outcome() jobs.State {
	s := jobs.State(r.small(int64(jobs.Canceled)))
	if !s.Terminal() {
		r.bad = true
	}
	return s
}
