package blob

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// sender sends blobs over one connection, a chunk of each in turn.
type sender struct {
	send func(...wire.Frame) error

	mu      sync.Mutex
	all     map[wire.GUID]*outgoing
	turns   []*outgoing // those with bytes to send; the first one is next
	unacked int64
	running bool
	closed  bool
	run     sync.WaitGroup
}

// outgoing is a blob that is sent. The fields from sent on are guarded by sender.mu.
type outgoing struct {
	id    wire.GUID
	size  int64
	open  func(offset int64) (io.ReadCloser, error)
	offer bool            // a put: the peer answers with the offset to begin at, and at the end with BlobEnd
	ended func(err error) // called once, with sender.mu held: nil if the peer has all bytes

	sent, acked int64
	began       bool
	content     io.ReadCloser // nil until the first chunk
	busy        bool          // content is being read
	over        bool          // it has ended
	stall       *time.Timer
}

// start adds a blob. It is sent from o.sent on, or if it is an offer, from the offset that the peer answers.
func (s *sender) start(o *outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		o.ended(ErrClosed)
		return
	}
	if o.id.IsZero() || s.all[o.id] != nil {
		o.ended(errID)
		return
	}
	s.all[o.id] = o
	o.stall = time.AfterFunc(StallLimit, func() { s.end(o.id, ErrStalled) })
	if !o.offer {
		s.begin(o, o.sent)
	}
}

func (s *sender) begin(o *outgoing, offset int64) {
	o.began = true
	o.sent, o.acked = offset, offset
	if o.sent < o.size {
		s.turns = append(s.turns, o)
		s.wake()
	}
}

// ack processes an acknowledgment of all bytes before an offset.
func (s *sender) ack(id wire.GUID, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.all[id]
	switch {
	case o == nil: // it has ended meanwhile
	case !o.began && 0 <= offset && offset <= o.size && (offset%Chunk == 0 || offset == o.size):
		s.begin(o, offset)
		o.stall.Reset(s.limit(o))
	case !o.began || offset < o.acked || offset > o.sent:
		s.remove(o, fmt.Errorf("%w: the peer acknowledges %d bytes after %d, and %d were sent of %d", wire.ErrFrame, offset, o.acked, o.sent, o.size))
	default:
		s.unacked -= offset - o.acked
		o.acked = offset
		o.stall.Reset(s.limit(o))
		if o.acked == o.size && !o.offer {
			s.remove(o, nil)
		}
		s.wake()
	}
}

func (*sender) limit(o *outgoing) time.Duration {
	if o.acked == o.size {
		return CommitLimit
	}
	return StallLimit
}

// end ends a transfer, and reports whether there is one with that id.
func (s *sender) end(id wire.GUID, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.all[id]
	if o != nil {
		s.remove(o, err)
		s.wake()
	}
	return o != nil
}

func (s *sender) remove(o *outgoing, err error) {
	delete(s.all, o.id)
	o.over = true
	o.stall.Stop()
	s.unacked -= o.sent - o.acked
	if !o.busy {
		o.close()
	}
	o.ended(err)
}

func (o *outgoing) close() {
	if o.content != nil {
		_ = o.content.Close() // it was only read
	}
}

// close ends all transfers and waits for the goroutine that sends.
func (s *sender) close() {
	s.mu.Lock()
	s.closed = true
	for _, o := range s.all {
		s.remove(o, ErrClosed)
	}
	s.mu.Unlock()
	s.run.Wait()
}

// wake starts the goroutine that sends, unless it runs. It ends when there is nothing to send.
func (s *sender) wake() {
	if !s.running && !s.closed {
		s.running = true
		s.run.Go(s.pump)
	}
}

func (s *sender) pump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := s.next(); o != nil; o = s.next() {
		n := min(Chunk, o.size-o.sent)
		o.busy = true
		s.mu.Unlock()
		chunk, err := o.read(n)
		s.mu.Lock()
		o.busy = false
		switch {
		case o.over:
			o.close()
			continue
		case err != nil:
			s.remove(o, err)
			continue
		}
		o.sent += n
		s.unacked += n
		if err := s.send(wire.Frame{Type: wire.BlobChunk, CorrID: o.id, Payload: chunk}); err != nil {
			s.remove(o, err)
		}
	}
	s.running = false
}

// next returns the transfer whose turn it is, or nil if all must wait for acknowledgments.
func (s *sender) next() *outgoing {
	for range s.turns {
		o := s.turns[0]
		s.turns = s.turns[1:]
		if o.over || o.sent == o.size {
			continue
		}
		s.turns = append(s.turns, o)
		if n := min(Chunk, o.size-o.sent); o.sent-o.acked+n <= share && s.unacked+n <= Window {
			return o
		}
	}
	return nil
}

// read reads the next n bytes.
func (o *outgoing) read(n int64) ([]byte, error) {
	if o.content == nil {
		content, err := o.open(o.sent)
		if err != nil {
			return nil, err
		}
		o.content = content
	}
	chunk := make([]byte, n)
	if got, err := io.ReadFull(o.content, chunk); err != nil {
		return nil, fmt.Errorf("read the content: %d bytes at %d of %d: %w", got, o.sent, o.size, err)
	}
	return chunk, nil
}
