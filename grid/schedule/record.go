package schedule

import (
	"encoding/binary"
	"encoding/json"
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
)

// write keeps a record for the caller.
func (c *Core) write(r Record) {
	if !c.replaying {
		c.record = append(c.record, r)
	}
}

// Fields: a GUID has 16 bytes, a number is a varint, a text its length and its bytes.
func (r Record) guid(g wire.GUID) Record { return append(r, g[:]...) }
func (r Record) number(n int64) Record   { return binary.AppendVarint(r, n) }
func (r Record) text(s string) Record    { return append(r.number(int64(len(s))), s...) }
func (r Record) body(b Body) Record {
	r = r.number(int64(b.Size))
	if b.Bytes == nil && b.Size > 0 {
		return append(r, 1).guid(b.Ref)
	}
	return append(append(r, 0), b.Bytes...) // the last field
}

// place has the array and the index of a job of an array.
func (r Record) place(j *job) Record {
	if of, index, ok := j.element(); ok {
		return r.number(index + 1).guid(of.job.id)
	}
	return r.number(0)
}

func submitRecord(j *job) Record {
	var first, last int64
	var opts string
	if j.rare != nil {
		if text, err := json.Marshal(j.rare.opts); err == nil && string(text) != "{}" {
			opts = string(text)
		}
		if a := j.rare.array; a != nil && j.rare.index < 0 {
			first, last = a.first, a.last
		}
	}
	b := j.theBody()
	r := make(Record, 0, 80+len(j.line.client.name)+len(j.line.exec.key.name)+len(opts)+len(b.Bytes))
	r = append(r, recSubmit).guid(j.id).number(int64(j.digest)).number(int64(j.born))
	return r.text(j.line.client.name).text(j.line.exec.key.name).text(opts).number(first).number(last).body(b)
}

func startRecord(j *job, a *attempt, w *peer) Record {
	return start(j, a.id, w.worker, w.host)
}

func start(j *job, attempt, worker wire.GUID, host string) Record {
	return append(make(Record, 0, 80), recStart).guid(j.id).guid(attempt).guid(worker).text(host).place(j)
}

func backRecord(j *job, a Attempt) Record {
	r := append(make(Record, 0, 128), recBack).guid(j.id).guid(j.rare.avoid).number(int64(j.attempts)).number(int64(j.crashes))
	return r.number(int64(a.Number)).number(int64(a.At)).text(a.Worker).text(a.Reason).place(j)
}

func endRecord(j *job) Record {
	b := j.theBody()
	var last string
	if j.rare != nil {
		last = j.rare.last
	}
	r := make(Record, 0, 80+len(j.line.client.name)+len(j.line.exec.key.name)+len(last)+len(b.Bytes))
	r = append(r, recEnd).guid(j.id).number(int64(j.outcome)).number(int64(j.born)).number(int64(j.since)).number(int64(j.digest))
	return r.text(j.line.client.name).text(j.line.exec.key.name).text(last).place(j).body(b)
}

func deadRecord(j *job) Record {
	d := j.rare.dead
	r := append(make(Record, 0, 64+len(d.reason)+len(d.result)), recDead).guid(j.id).number(int64(j.since)).text(d.reason)
	return r.place(j).body(Body{Bytes: d.result, Size: len(d.result)})
}

func idRecord(kind byte, j *job) Record { return append(make(Record, 0, 17), kind).guid(j.id) }

func deliveredRecord(j *job) Record { return idRecord(recDelivered, j) }
func requeueRecord(j *job) Record   { return idRecord(recRequeue, j) }
func dropRecord(j *job) Record      { return idRecord(recDrop, j) }
func cancelRecord(j *job) Record    { return idRecord(recCancel, j).text(j.rare.last) }

func capRecord(client string, n int) Record {
	return append(make(Record, 0, 20+len(client)), recCap).text(client).number(int64(n))
}

func arrayRecord(a *array) Record {
	return idRecord(recArray, a.job).number(a.next).number(a.ended).number(a.failed)
}

// errRecord means that a record cannot be read.
var errRecord = errors.New("damaged record of the grid")

// reading is a record that is being read. Once something was wrong, all that follows is zero.
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

// small is a number from 0 to limit.
func (r *reading) small(limit int64) int64 {
	n := r.number()
	if n < 0 || n > limit {
		r.bad = true
		return 0
	}
	return n
}

func (r *reading) text() string { return string(r.take(int(r.small(math.MaxInt32)))) }

func (r *reading) name() string { return r.text() }

// moment is one of before this leader was started: it is not in the future.
func (r *reading) moment(c *Core) Moment { return min(Moment(r.number())+c.shift, c.now) }

func (r *reading) body() Body {
	b := Body{Size: int(r.small(math.MaxInt32))}
	switch kind := r.take(1); {
	case len(kind) == 0:
	case kind[0] == 1:
		b.Ref = r.guid()
	case kind[0] == 0 && len(r.rest) == b.Size:
		b.Bytes = append([]byte(nil), r.take(b.Size)...)
		if b.Bytes == nil {
			b.Bytes = []byte{}
		}
	default:
		r.bad = true
	}
	return b
}

func (r *reading) place() (array wire.GUID, index int64) {
	if n := r.small(math.MaxInt64 - 1); n > 0 {
		return r.guid(), n - 1
	}
	return wire.GUID{}, -1
}

func (r *reading) outcome() jobs.State {
	s := jobs.State(r.small(int64(jobs.Canceled)))
	if !s.Terminal() {
		r.bad = true
	}
	return s
}
