package engine

import (
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

// maxLog is how many bytes of lines a log keeps, with two to six for each line.
const maxLog = 5 << 20

// chunkSize is where a chunk is full. A line may make it longer.
const chunkSize = 64 << 10

// recordSize is what a line takes at most beside its text.
const recordSize = 2*binary.MaxVarintLen32 + binary.MaxVarintLen64

// A joblog is the log of one job. Lines are numbered from 1, and keep their
// numbers when older ones are dropped. Its lock is held for no longer than it
// takes to copy a line.
type joblog struct {
	id     string
	began  time.Time
	budget *LogBudget
	lost   func(lines int) // counts dropped lines, in batches

	held  atomic.Int64 // bytes of memory
	ended atomic.Bool  // its job has; set under mu
	mu    sync.Mutex
	parts []chunk
	head  int    // where in parts[0] the first line kept begins
	first uint64 // position of the first line kept
	next  uint64 // position of the next line
	told  uint64 // position of the first line that lost does not know of
	last  uint64 // when the last line was written, in microseconds since the beginning
	size  int    // bytes of the lines kept
	open  int    // which step may write, from 1, or own
	grew  bool   // the budget does not know yet
}

// A chunk is a part of a log: lines one behind the other, each a uvarint of the
// microseconds since the line before, a uvarint of its length, and its text. What
// is written stays as it is, so that a reader may read on without the lock what
// was there when it had it.
type chunk struct {
	buf  []byte
	seq  uint64 // position of the first line written
	base uint64 // when the line before that was
}

func newLog(id string, budget *LogBudget, lost func(int)) *joblog {
	l := &joblog{id: id, began: time.Now(), budget: budget, lost: lost, first: 1, next: 1, told: 1}
	budget.mu.Lock()
	defer budget.mu.Unlock()
	at, _ := budget.find(l)
	budget.logs = slices.Insert(budget.logs, at, l)
	return l
}

// own is who the engine itself writes as, when no step may.
const own = 0

// add appends lines, which then stand together, for a step. It reports whether the
// log still takes lines of that step.
func (l *joblog) add(step int, lines ...string) bool {
	l.mu.Lock()
	defer l.unlock()
	if step != l.open || l.ended.Load() {
		return false
	}
	l.write(lines)
	return true
}

// turn appends lines of the engine and lets a step write.
func (l *joblog) turn(step int, lines ...string) {
	l.mu.Lock()
	defer l.unlock()
	l.open = step
	l.write(lines)
}

// end appends the last lines.
func (l *joblog) end(lines ...string) {
	l.mu.Lock()
	defer l.unlock()
	l.write(lines)
	if n := len(l.parts); n > 0 {
		// The job is one of many that have ended: what it keeps has no room to grow.
		l.resize(&l.parts[n-1], len(l.parts[n-1].buf))
	}
	l.settle()
	l.ended.Store(true)
}

// unlock ends a change, for which this log or others may lose lines.
func (l *joblog) unlock() {
	grew := l.grew
	l.grew = false
	l.mu.Unlock()
	if grew { // the others do not wait for the budget's lock
		l.budget.keep()
	}
}

// write appends lines and drops the oldest while there are too many.
func (l *joblog) write(lines []string) {
	at := uint64(time.Since(l.began) / time.Microsecond) //nolint:gosec // by the monotonic clock: never less than before
	for _, text := range lines {
		c := l.room(len(text) + recordSize)
		before := len(c.buf)
		c.buf = binary.AppendUvarint(c.buf, at-l.last)
		c.buf = binary.AppendUvarint(c.buf, uint64(len(text)))
		c.buf = append(c.buf, text...)
		l.size += len(c.buf) - before
		l.last = at
		l.next++
		for l.size > maxLog {
			l.drop()
		}
	}
}

// record reads the line at the beginning of b.
func record(b []byte) (since uint64, text, rest []byte) {
	since, n := binary.Uvarint(b)
	length, m := binary.Uvarint(b[n:])
	b = b[n+m:]
	return since, b[:length], b[length:]
}

// room returns the chunk for a line, with room for the n bytes that it takes at
// most. Of a log's first chunk, which often stays the only one, there is twice as
// much each time; later ones are whole at once.
func (l *joblog) room(n int) *chunk {
	i := len(l.parts) - 1
	if i < 0 || len(l.parts[i].buf)+n > chunkSize {
		l.parts = append(l.parts, chunk{seq: l.next, base: l.last})
		i++
	}
	c := &l.parts[i]
	if need := len(c.buf) + n; need > cap(c.buf) {
		size := chunkSize
		if c.seq == 1 {
			size = min(max(512, 2*cap(c.buf)), chunkSize)
		}
		l.resize(c, max(size, need))
	}
	return c
}

// resize gives a chunk a buffer of n bytes.
func (l *joblog) resize(c *chunk, n int) {
	grown := int64(n - cap(c.buf))
	c.buf = append(make([]byte, 0, n), c.buf...)
	l.held.Add(grown)
	l.budget.used.Add(grown)
	l.grew = true
}

// drop takes away the oldest line, and the chunk that it was the last of.
func (l *joblog) drop() {
	c := l.parts[0].buf
	_, _, rest := record(c[l.head:])
	l.size -= len(c) - len(rest) - l.head
	l.head = len(c) - len(rest)
	l.first++
	if len(rest) == 0 {
		l.budget.used.Add(-l.shift())
	}
}

// shift drops the first chunk. It returns how much memory that gives back.
func (l *joblog) shift() (freed int64) {
	c := l.parts[0]
	l.parts[0] = chunk{} // append moves the others to a new array in time
	l.parts = l.parts[1:]
	l.size -= len(c.buf) - l.head
	l.head, l.first = 0, l.next
	if len(l.parts) > 0 {
		l.first = l.parts[0].seq
	}
	l.settle()
	l.held.Add(-int64(cap(c.buf)))
	return int64(cap(c.buf))
}

// settle tells lost what it does not know of.
func (l *joblog) settle() {
	l.lost(int(l.first - l.told)) //nolint:gosec // a count
	l.told = l.first
}

// give drops the oldest chunk, for others' lines. It returns how much memory that
// gave back; 0 when there is nothing to drop.
func (l *joblog) give() (freed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.parts) == 0 {
		return 0
	}
	return l.shift()
}

// read returns the lines that q asks for. Under the lock it copies no line.
func (l *joblog) read(q jobapi.LogQuery) (jobapi.Log, error) {
	l.mu.Lock()
	parts, first, next := slices.Clone(l.parts), l.first, l.next
	l.mu.Unlock()
	tail := uint64(max(0, q.Tail)) //nolint:gosec // not negative
	from := max(first, next-min(next, tail))
	if q.After != "" {
		after, err := strconv.ParseUint(q.After, 10, 63)
		if err != nil {
			return jobapi.Log{}, &jobapi.FieldError{Field: "after", Problem: "it is not the place of a line"}
		}
		from = max(first, after+1)
	}
	since := uint64(max(0, q.Since.Sub(l.began)/time.Microsecond)) //nolint:gosec // not negative
	lines := make([]jobapi.Line, 0, min(tail, next-min(next, from)))
	for i, c := range parts {
		if i+1 < len(parts) && (parts[i+1].seq <= from || parts[i+1].base < since) {
			continue // its last line, too, is before what is asked for
		}
		at := c.base
		for seq, b := c.seq, c.buf; len(b) > 0 && len(lines) < cap(lines); seq++ {
			us, text, rest := record(b)
			at, b = at+us, rest
			if seq >= from && at >= since {
				when := l.began.Add(time.Duration(at) * time.Microsecond) //nolint:gosec // of a job, which has a timeout
				lines = append(lines, jobapi.Line{Pos: strconv.FormatUint(seq, 10), Time: when, Text: string(text)})
			}
		}
	}
	return jobapi.Log{Lines: lines, Dropped: int(first - 1)}, nil //nolint:gosec // a count
}
