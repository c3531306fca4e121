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

	"github.com/batchfleet/batchfleet/journal"
)

// A stableLog is the journal of a server with a data directory.
// A nil one, of a server without a data directory, records nothing.
type stableLog struct {
	journal *journal.Journal
	last    atomic.Uint64 // the highest ticket so far: all records appended before are up to it
}

func (l *stableLog) append(w recordWriter) {
	if l == nil { // frequent records are not even made then
		return
	}
	t := uint64(l.journal.Append(w))
	for last := l.last.Load(); last < t && !l.last.CompareAndSwap(last, t); last = l.last.Load() {
	}
}

// Open returns a server that keeps its state in dir, which is made if it is
// missing and belongs to one process at a time. It begins with the state that is
// there. Damage is repaired, with a line in the log; it is an error if the
// directory cannot be used at all.
//
// What was confirmed to a client is recorded: a publish and a change of
// configuration survive the end of the machine, a delivery, an ack and an
// extension the end of the process. While nothing can be written, such calls fail
// with UNAVAILABLE, and the journal tries again. Close the server after use.
func Open(cfg Config, dir string) (*Server, error) {
	return openJournal(cfg, dir, journal.Options{Log: cfg.Log, RetryAfterFailure: true})
}

func openJournal(cfg Config, dir string, opts journal.Options) (*Server, error) {
	img := newImage()
	j, err := journal.Open(dir, opts, img.apply)
	if err != nil {
		return nil, err
	}
	stable := &stableLog{journal: j}
	s := New(cfg)
	s.broker = img.restore(stable, cfg.Log)
	s.broker.restoreSchemas(img, cfg.Log)
	if img.epoch.IsZero() {
		stable.append(epochRecord(s.broker.epoch))
	}
	return s, nil
}

// Close writes what is not yet written and unlocks the data directory. Serve must
// have returned.
func (s *Server) Close() error {
	s.broker.closeQueues()
	if s.broker.log == nil {
		return nil
	}
	return s.broker.log.journal.Close()
}

// closeQueues stops all timers.
func (b *broker) closeQueues() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sub := range b.subs {
		sub.queue.stop()
		if sub.end != nil {
			sub.end.Stop()
		}
	}
	for _, snap := range b.snapshots {
		snap.end.Stop()
	}
	for _, t := range b.topics {
		t.mu.Lock()
		t.stopPruning()
		t.mu.Unlock()
	}
}

var errStopped = errors.New("server stopped")

// err returns why nothing can be recorded at present, as a status, or nil.
func (l *stableLog) err() error {
	if l == nil {
		return nil
	}
	return unavailable(l.journal.Err())
}

func unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	default:
		return status.Errorf(codes.Unavailable, "cannot write to the data directory, trying again: %v", err)
	}
}

func (l *stableLog) wait(ctx context.Context, sync bool) error {
	if l == nil {
		return nil
	}
	return unavailable(l.journal.Commit(ctx, journal.Ticket(l.last.Load()), sync))
}

// commit waits until all changes would survive the end of the machine.
func (b *broker) commit(ctx context.Context) error { return b.log.wait(ctx, true) }

// written waits until all changes would survive the end of the process.
func (b *broker) written(ctx context.Context) error { return b.log.wait(ctx, false) }

// commitAcks waits until acks and extensions on q are recorded. A lost one costs a
// redelivery, which is not allowed with exactly-once delivery: there it waits for
// the disk, otherwise only for the write.
func (b *broker) commitAcks(ctx context.Context, q *queue) error {
	return b.log.wait(ctx, q.isExact())
}

// checkpointLoop writes a checkpoint whenever the journal asks for one, until ctx
// ends.
func (s *Server) checkpointLoop(ctx context.Context) {
	if s.broker.log == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.broker.log.journal.WantsCheckpoint():
		}
		start := time.Now()
		if err := s.broker.checkpoint(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			s.log.WarnContext(ctx, "cannot write a checkpoint, the journal keeps growing", "err", err)
			continue
		}
		s.log.InfoContext(ctx, "checkpoint written", slog.Duration("took", time.Since(start)))
	}
}

// checkpoint writes the state to the journal, in place of the records before it.
// All calls wait while the state is copied, but not while it is written. It is
// abandoned when ctx ends: the journal still holds the records.
func (b *broker) checkpoint(ctx context.Context) error {
	c, img, err := b.beginCheckpoint()
	if err != nil {
		return err
	}
	if err := img.write(ctx, c); err != nil {
		c.Abort()
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return c.Done() //nolint:contextcheck // a checkpoint is valid as a whole or not at all
}

// beginCheckpoint begins a checkpoint and returns a copy of the state.
func (b *broker) beginCheckpoint() (*journal.Checkpoint, *image, error) {
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
	c, err := b.log.journal.Checkpoint()
	if err != nil {
		return nil, nil, err
	}
	return c, b.image(), nil
}
