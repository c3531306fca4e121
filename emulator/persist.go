package emulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/emulator/journal"
)

// A stableLog is the journal of a server with a data directory.
type stableLog struct {
	journal *journal.Journal
	last    atomic.Uint64 // the ticket of a record after which all that were appended before come
}

func (l *stableLog) append(w recordWriter) {
	t := uint64(l.journal.Append(w))
	for last := l.last.Load(); last < t && !l.last.CompareAndSwap(last, t); last = l.last.Load() {
	}
}

// Open returns a server that keeps its state in dir, which is made if need be
// and belongs to one process at a time. It begins with what is there. What is
// damaged is repaired, with a line in the log; the error is that of a directory
// that cannot be used at all.
//
// What a client was told is on record: a publish and a change of configuration
// survive the end of the machine, a delivery, an ack and an extension that of
// the process. Close the server after use.
func Open(cfg Config, dir string) (*Server, error) {
	img := newImage()
	j, err := journal.Open(dir, cfg.Log, img.apply)
	if err != nil {
		return nil, err
	}
	stable := &stableLog{journal: j}
	s := New(cfg)
	s.broker = img.restore(recorder{stable}, cfg.Log)
	s.broker.restoreSchemas(img, cfg.Log)
	if !img.begun {
		stable.append(epochRecord(s.broker.epoch))
	}
	return s, nil
}

// Close writes what is not yet written and lets go of the data directory. The
// server must not be serving any more.
func (s *Server) Close() error {
	s.broker.closeQueues()
	if s.broker.log.j == nil {
		return nil
	}
	return s.broker.log.j.journal.Close()
}

// closeQueues stops all timers, so that nothing happens any more.
func (b *broker) closeQueues() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sub := range b.subs {
		sub.queue.halt()
		if sub.end != nil {
			sub.end.Stop()
		}
	}
	for _, snap := range b.snapshots {
		snap.end.Stop()
	}
	for _, t := range b.topics {
		t.halt()
	}
}

var errStopped = errors.New("server stopped")

// err says why nothing can be recorded at present, as a status, or returns nil.
func (r recorder) err() error {
	if r.j == nil {
		return nil
	}
	return unwritten(r.j.journal.Err())
}

func unwritten(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	default:
		return status.Errorf(codes.Unavailable, "the server cannot write to its data directory, and goes on when it can: %v", err)
	}
}

func (r recorder) wait(ctx context.Context, sync bool) error {
	if r.j == nil {
		return nil
	}
	return unwritten(r.j.journal.Commit(ctx, journal.Ticket(r.j.last.Load()), sync))
}

// commit waits until all that has happened would survive the end of the
// machine.
func (b *broker) commit(ctx context.Context) error { return b.log.wait(ctx, true) }

// written waits until all that has happened would survive the end of the
// process.
func (b *broker) written(ctx context.Context) error { return b.log.wait(ctx, false) }

// settled waits for acks and extensions on q: one that is lost costs a
// redelivery, which a subscription that delivers exactly once has promised not
// to make.
func (b *broker) settled(ctx context.Context, q *queue) error {
	return b.log.wait(ctx, q.isExact())
}

// keepShort writes a checkpoint whenever the journal wants one, until ctx ends.
func (s *Server) keepShort(ctx context.Context) {
	if s.broker.log.j == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.broker.log.j.journal.WantsCheckpoint():
		}
		start := time.Now()
		if err := s.broker.checkpoint(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			s.log.WarnContext(ctx, "cannot write a checkpoint, the journal goes on growing", "err", err)
			continue
		}
		s.log.InfoContext(ctx, "checkpoint written", slog.Duration("took", time.Since(start)))
	}
}

// checkpoint writes the state to the journal and so makes what came before it
// superfluous. Everything stands still while the state is remembered, but not
// while it is written. It is abandoned when ctx ends: the journal holds all of it.
func (b *broker) checkpoint(ctx context.Context) error {
	c, img, err := b.remember()
	if err != nil {
		return err
	}
	if err := img.write(ctx, c); err != nil {
		c.Abort()
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return c.Done() //nolint:contextcheck // what has been written counts, or nothing does
}

// remember begins a checkpoint and returns the state at that moment.
func (b *broker) remember() (*journal.Checkpoint, *image, error) {
	b.schemas.mu.Lock()
	defer b.schemas.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.topics {
		t.mu.Lock()
		defer t.mu.Unlock()
	}
	for _, sub := range b.subs {
		sub.queue.mu.Lock()
		defer sub.queue.mu.Unlock()
	}
	c, err := b.log.j.journal.Checkpoint()
	if err != nil {
		return nil, nil, err
	}
	return c, b.image(), nil
}
