package engine

import (
	"encoding/binary"
	"time"
)

// A chunk is a part of a log: lines one behind the other, each a uvarint of the
// microseconds since the line before, a uvarint of its length, and its text. What
// is written stays as it is, so that a reader may read on without the lock what
// was there when it had it.
type chunk struct {
	buf   []byte
	lines int           // how many were written
	seq   uint64        // position of the first line written
	base  time.Duration // when, of the first line: since the beginning of the log
	last  time.Duration // of the last line
}

// chunkSize is where a chunk is full. A line may make it longer.
const chunkSize = 64 << 10

// recordSize is what a line of n bytes takes at most.
func recordSize(n int) int { return n + 2*binary.MaxVarintLen32 + binary.MaxVarintLen64 }

// room makes room for n bytes, and returns by how much the chunk has grown. Of a
// log's first chunk, which often stays the only one, there is twice as much each
// time; later ones are whole at once.
func (c *chunk) room(n int) (grown int64) {
	before, need := cap(c.buf), len(c.buf)+n
	if need <= before {
		return 0
	}
	size := chunkSize
	if c.seq == 1 {
		size = min(max(512, 2*before), chunkSize)
	}
	buf := make([]byte, len(c.buf), max(size, need))
	copy(buf, c.buf)
	c.buf = buf
	return int64(cap(buf) - before)
}

// add appends a line, at a time not before that of the line before.
func (c *chunk) add(at time.Duration, text string) (size int) {
	before := len(c.buf)
	if c.lines == 0 {
		c.base, c.last = at, at
	}
	c.buf = binary.AppendUvarint(c.buf, uint64((at-c.last)/time.Microsecond)) //nolint:gosec // not negative
	c.buf = binary.AppendUvarint(c.buf, uint64(len(text)))
	c.buf = append(c.buf, text...)
	c.lines++
	c.last += (at - c.last).Truncate(time.Microsecond)
	return len(c.buf) - before
}

// record reads the line at the beginning of b.
func record(b []byte) (since time.Duration, text, rest []byte) {
	us, n := binary.Uvarint(b)
	length, m := binary.Uvarint(b[n:])
	b = b[n+m:]
	return time.Duration(us) * time.Microsecond, b[:length], b[length:] //nolint:gosec // written by add
}
