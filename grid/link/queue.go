package link

import (
	"net"

	"github.com/batchfleet/batchfleet/grid/wire"
)

const (
	chunk = 64 << 10  // small frames are copied into pieces of this size
	large = 16 << 10  // a payload from this size on is not copied
	piece = 256 << 10 // how much is written under one deadline
)

// queue holds what is to be written.
type queue struct {
	batch
	bytes int // with those that are being written
	spare []byte
}

// batch is what one write takes.
type batch struct {
	buffers net.Buffers
	tail    []byte // the last piece, to which more can be added; not in buffers yet
	frames  int
	size    int
	ids     []wire.GUID
	first   []byte // the piece that can be used again
}

func (q *queue) add(f *wire.Frame) {
	if q.tail == nil {
		q.tail, q.spare = q.spare[:0], nil
		if q.tail == nil {
			q.tail = make([]byte, 0, chunk)
		}
		if q.first == nil {
			q.first = q.tail
		}
	}
	if len(f.Payload) < large {
		q.tail = f.Append(q.tail)
	} else {
		q.tail = f.AppendHeader(q.tail)
		q.buffers = append(q.buffers, q.tail, f.Payload)
		q.tail = nil
	}
	if len(q.tail) >= chunk {
		q.buffers = append(q.buffers, q.tail)
		q.tail = nil
	}
	n := 4 + f.Len()
	q.size += n
	q.bytes += n
	q.frames++
}

// take returns all that waits.
func (q *queue) take() batch {
	b := q.batch
	if len(b.tail) > 0 {
		b.buffers = append(b.buffers, b.tail)
	}
	q.batch = batch{}
	return b
}

func (q *queue) written(b batch) {
	q.bytes -= b.size
	if q.spare == nil && cap(b.first) <= 2*chunk {
		q.spare = b.first[:0]
	}
}

// cut takes the first n bytes of buffers, or all if there are fewer.
func cut(buffers *net.Buffers, n int) (first net.Buffers) {
	for n > 0 && len(*buffers) > 0 {
		b := (*buffers)[0]
		if len(b) > n {
			first, (*buffers)[0] = append(first, b[:n]), b[n:]
			return first
		}
		first, *buffers, n = append(first, b), (*buffers)[1:], n-len(b)
	}
	return first
}
