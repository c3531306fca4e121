package link

import (
	"net"

	"github.com/batchfleet/batchfleet/grid/wire"
)

const (
	least = 512       // bytes of the first piece, which grows
	small = 4 << 10   // a connection that writes little at a time keeps no larger piece
	calm  = 16        // writes that would have fitted into a small piece: then a larger one is dropped
	chunk = 64 << 10  // small frames are copied into pieces of this size
	large = 16 << 10  // a payload from this size on is not copied
	piece = 256 << 10 // how much is written under one deadline
)

// queue holds what is to be written.
type queue struct {
	batch
	bytes int // with those that are being written
	spare []byte
	calm  int // how many writes in a row were small
}

// batch is what one write takes.
type batch struct {
	buffers net.Buffers
	tail    []byte // the last piece, to which more can be added; not in buffers yet
	frames  int
	size    int
	ids     []wire.GUID
	own     []byte // a piece that can be used again
}

func (q *queue) add(f *wire.Frame) {
	if q.tail == nil {
		q.tail, q.spare = q.spare, nil
		if q.tail == nil {
			q.tail = make([]byte, 0, least)
		}
	}
	if len(f.Payload) < large {
		q.tail = f.Append(q.tail)
	} else {
		q.tail = f.AppendHeader(q.tail)
		q.buffers = append(q.buffers, q.tail, f.Payload)
		q.own, q.tail = q.tail, nil
	}
	if len(q.tail) >= chunk {
		q.buffers = append(q.buffers, q.tail)
		q.own, q.tail = q.tail, nil
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
		if cap(b.tail) > cap(b.own) {
			b.own = b.tail
		}
	}
	q.batch = batch{}
	return b
}

func (q *queue) written(b batch) {
	q.bytes -= b.size
	if b.size > small {
		q.calm = 0
	} else {
		q.calm++
	}
	if n := cap(b.own); q.spare == nil && (n <= small || n <= 2*chunk && q.calm < calm) {
		q.spare = b.own[:0]
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
