package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Server serves a store to the peer of one connection. Close must be called when the connection has ended. Handle must not be called concurrently.
type Server struct {
	store *Store
	owner string
	send  func(...wire.Frame) error

	out  *sender
	in   *receiver
	puts sync.WaitGroup
	gets atomic.Int32 // under way
}

// NewServer returns a server that sends frames by send, which must not wait. Owner identifies the peer, which has said hello: an interrupted upload goes on
// over the next connection of the same owner.
func NewServer(store *Store, owner string, send func(...wire.Frame) error) *Server {
	send = closing(send)
	return &Server{
		store: store, owner: owner, send: send,
		out: &sender{send: send, all: map[wire.GUID]*outgoing{}}, in: &receiver{all: map[wire.GUID]*incoming{}},
	}
}

// Handle processes a BlobBegin, BlobChunk or BlobEnd of the peer. It does not wait for the disk. After an error the caller must close the connection.
func (s *Server) Handle(f wire.Frame) error {
	switch f.Type {
	case wire.BlobChunk:
		return s.in.chunk(f)
	case wire.BlobEnd:
		var e Error
		if err := read(f, &e); err != nil {
			return err
		}
		if !s.in.end(f.CorrID, refuse(wire.CodeBusy, "the peer has ended the transfer: %.200s", e.Message)) {
			s.out.end(f.CorrID, &e)
		}
		return nil
	case wire.BlobBegin:
	default:
		return nil
	}
	var b begin
	if err := read(f, &b); err != nil {
		return err
	}
	if !f.CorrID.IsZero() {
		s.out.ack(f.CorrID, b.Offset)
		return nil
	}
	err := Check(b.SHA256, b.Size)
	switch {
	case err != nil:
		err = refuse(wire.CodeInvalid, "%v", err)
	case b.Want:
		err = s.give(f.MsgID, b)
	default:
		err = s.take(f.MsgID, b)
	}
	if err != nil {
		return s.send(endFrame(f.MsgID, err))
	}
	return nil
}

// give begins to send a blob.
func (s *Server) give(id wire.GUID, b begin) error {
	size, ok := s.store.Size(b.SHA256)
	switch {
	case !ok:
		return refuse(wire.CodeNotFound, "there is no blob with Sha256 %s", b.SHA256)
	case size != b.Size:
		return refuse(wire.CodeInvalid, "Size is %d, and the blob has %d bytes", b.Size, size)
	case b.Offset < 0 || b.Offset >= size || b.Offset%Chunk != 0:
		return refuse(wire.CodeInvalid, "Offset is %d: it must be a multiple of %d within the %d bytes", b.Offset, Chunk, size)
	}
	if s.gets.Add(1) > MaxTransfers {
		s.gets.Add(-1)
		return refuse(wire.CodeBusy, "%d transfers are under way, at most %d at once", MaxTransfers, MaxTransfers)
	}
	s.out.start(&outgoing{
		id: id, size: size, sent: b.Offset, acked: b.Offset,
		open: func(offset int64) (io.ReadCloser, error) {
			r, _, err := s.store.Open(context.Background(), b.SHA256, offset)
			return r, err
		},
		ended: func(err error) {
			s.gets.Add(-1)
			if err == nil || errors.Is(err, ErrClosed) {
				return
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = refuse(wire.CodeNotFound, "the blob was deleted")
			}
			_ = s.send(endFrame(id, err)) // otherwise the connection has ended
		},
	})
	return nil
}

// take begins to receive a blob.
func (s *Server) take(id wire.GUID, b begin) error {
	in, err := s.in.add(id, b.Size, MaxTransfers)
	if err != nil {
		return err
	}
	s.puts.Go(func() {
		err := s.receive(in, b)
		s.in.remove(in)
		if !errors.Is(err, ErrClosed) {
			_ = s.send(endFrame(id, err)) // otherwise the connection has ended, and the peer will ask again
		}
	})
	return nil
}

func (s *Server) receive(in *incoming, b begin) error {
	u, err := s.store.upload(context.Background(), s.owner, b.SHA256, b.Size)
	if u == nil || err != nil {
		return err
	}
	s.in.begin(in, u.offset)
	if err := s.send(ackFrame(in.id, u.offset)); err != nil {
		u.park()
		return err
	}
	stall := time.NewTimer(StallLimit)
	defer stall.Stop()
	for u.offset < u.size {
		select {
		case chunk := <-in.chunks:
			if err := u.write(context.Background(), chunk); err != nil {
				u.abort()
				return err
			}
			s.in.taken(in, len(chunk))
			_ = s.send(ackFrame(in.id, u.offset)) // an error ends the transfer next: in.ended
			stall.Reset(StallLimit)
		case <-in.ended:
			if errors.Is(in.err, ErrClosed) {
				u.park()
			} else {
				u.abort()
			}
			return in.err
		case <-stall.C:
			u.abort()
			return refuse(wire.CodeBusy, "the transfer has stalled: no chunk has come for %s", StallLimit)
		}
	}
	return u.commit()
}

// Close ends all transfers and waits for them. Unfinished uploads are kept for [KeepUpload], so that they can go on.
func (s *Server) Close() {
	s.in.close()
	s.out.close()
	s.puts.Wait()
}
