package blob

import (
	"fmt"
	"sync"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// receiver receives the chunks of one connection.
type receiver struct {
	mu      sync.Mutex
	all     map[wire.GUID]*incoming
	unacked int64
	closed  bool
}

// incoming is a blob that is received. Its fields are guarded by receiver.mu, except the channels.
type incoming struct {
	id       wire.GUID
	size     int64
	began    bool
	received int64
	pending  int64 // of received, not acknowledged
	err      error // why it has ended, once ended is closed

	chunks chan []byte
	ended  chan struct{}
}

// add returns a new transfer. It is an error if the id is in use, limit transfers are under way, or the connection has ended.
func (r *receiver) add(id wire.GUID, size int64, limit int) (*incoming, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, ErrClosed
	case id.IsZero() || r.all[id] != nil:
		return nil, errID
	case len(r.all) >= limit:
		return nil, refuse(wire.CodeBusy, "%d transfers are under way: at most %d may be", len(r.all), limit)
	}
	in := &incoming{id: id, size: size, chunks: make(chan []byte, share/Chunk), ended: make(chan struct{})}
	r.all[id] = in
	return in, nil
}

// begin makes a transfer accept chunks, from an offset on.
func (r *receiver) begin(in *incoming, offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in.began, in.received = true, offset
}

// chunk processes a BlobChunk. An error means that the peer has overrun the window: the connection must be closed.
func (r *receiver) chunk(f wire.Frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.all[f.CorrID]
	if in == nil || in.err != nil {
		return nil // it has ended here, and the peer does not know yet
	}
	n := int64(len(f.Payload))
	if r.unacked+n > Window {
		return fmt.Errorf("%w: more than %d bytes of blobs are not acknowledged", wire.ErrFrame, Window)
	}
	want := min(Chunk, in.size-in.received)
	switch {
	case !in.began:
		in.end(fmt.Errorf("%w: a chunk came before it could be taken", wire.ErrFrame))
	case n != want || n == 0:
		in.end(fmt.Errorf("%w: a chunk at %d of %d bytes has %d bytes, not %d", wire.ErrFrame, in.received, in.size, n, want))
	case in.pending+n > share:
		in.end(fmt.Errorf("%w: more than %d bytes of one transfer are not acknowledged", wire.ErrFrame, share))
	default:
		in.received += n
		in.pending += n
		r.unacked += n
		in.chunks <- f.Payload // never waits: the channel holds a share
	}
	return nil
}

// taken notes that a chunk was written. The caller acknowledges it.
func (r *receiver) taken(in *incoming, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in.pending -= int64(n)
	r.unacked -= int64(n)
}

// end ends a transfer, and reports whether there is one with that id. The goroutine that writes its chunks sees incoming.ended.
func (r *receiver) end(id wire.GUID, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.all[id]
	if in != nil {
		in.end(err)
	}
	return in != nil
}

func (in *incoming) end(err error) {
	if in.err == nil {
		in.err = err
		close(in.ended)
	}
}

// remove forgets a transfer. The goroutine that writes its chunks calls it last.
func (r *receiver) remove(in *incoming) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, in.id)
	r.unacked -= in.pending
	in.pending = 0
}

func (r *receiver) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, in := range r.all {
		in.end(ErrClosed)
	}
}
