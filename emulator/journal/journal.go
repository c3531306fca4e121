package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// checkpointAfter is [Journal.CheckpointAfter] unless that is set.
	checkpointAfter = 64 << 20

	// chunkSize is about what one write writes. Larger ones are not faster.
	chunkSize = 1 << 20
)

// A Ticket names the place of a record in the journal: all records with lower
// tickets are before it.
type Ticket uint64

// noTicket is the ticket of what will never be written.
const noTicket = Ticket(math.MaxUint64)

var errClosed = fmt.Errorf("journal: %w", os.ErrClosed)

// A Journal is a directory of records, open for more. Its methods may be called
// concurrently.
type Journal struct {
	// CheckpointAfter is how many bytes of records make the journal want a
	// checkpoint, if the last one was no larger; 64 MiB. It may be set before the
	// first Append.
	CheckpointAfter int64

	dir  string
	log  *slog.Logger
	lock *os.File
	disk disk

	wake    chan struct{} // the writer has something to do
	closing chan struct{}
	want    chan struct{}
	writing sync.WaitGroup
	ending  sync.Mutex // a checkpoint is about to end, or the journal

	mu       sync.Mutex
	queue    []chunk
	spare    []byte   // a buffer to use again
	segment  *segment // where Append goes
	appended Ticket   // of the last record
	written  Ticket   // up to here records are written
	synced   Ticket   // and up to here synced
	waiting  []waiter
	err      error
	closed   bool

	since         int64 // bytes appended, or found, since the last checkpoint
	checkpointed  int64 // bytes of the last checkpoint
	patience      int64 // how much further since may grow before asking again
	checkpointing bool
}

// A chunk is a row of frames for one segment.
type chunk struct {
	segment *segment
	frames  []byte
	end     Ticket // of the last
}

// A waiter is somebody in Commit.
type waiter struct {
	ticket Ticket
	sync   bool
	done   chan error // has room for the answer
}

// Open locks dir, which it makes if it is missing, calls apply for each record
// there, in order, and returns a journal to append to. A record is only good
// until apply returns.
//
// The error names the process that has the directory open, if one has, or says
// that others may write to it, or that a file cannot be opened at all. Damage is no error: see the package's
// documentation. Nor is an error of apply: it is logged and the record skipped,
// because whoever cannot read one record still wants all the others.
func Open(dir string, log *slog.Logger, apply func(record []byte) error) (*Journal, error) {
	j, err := open(dir, log, apply)
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, nil
}

func open(dir string, log *slog.Logger, apply func(record []byte) error) (_ *Journal, err error) {
	dir, err = filepath.Abs(dir) // a later chdir must not move the journal
	if err != nil {
		return nil, err
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if err := checkMode(dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close() // nothing was written
		}
	}()
	l, err := list(dir)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r := replayer{dir: dir, log: log, apply: apply}
	last, since, checkpointed, err := r.replayAll(l)
	if err != nil {
		return nil, err
	}
	log.Info("journal read", "dir", dir, "records", r.records, "bytes", since+checkpointed, "took", time.Since(start))
	j := &Journal{
		CheckpointAfter: checkpointAfter,
		dir:             dir,
		log:             log,
		lock:            lock,
		disk:            realDisk{},
		wake:            make(chan struct{}, 1),
		closing:         make(chan struct{}),
		want:            make(chan struct{}, 1),
		segment:         last,
		since:           since,
		checkpointed:    checkpointed,
	}
	j.askForCheckpoint()
	j.writing.Go(j.write)
	return j, nil
}

// Append queues a copy of record to be written soon. It never waits for the
// disk: the caller bounds what is queued, by waiting in Commit, and by taking on
// nothing new while Err is not nil. A record longer than [MaxRecord] panics.
func (j *Journal) Append(record []byte) Ticket {
	if len(record) > MaxRecord {
		panic(fmt.Sprintf("journal: record of %d bytes, the limit is %d", len(record), MaxRecord))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return noTicket
	}
	size := headerSize + len(record)
	n := len(j.queue)
	if n == 0 || j.queue[n-1].segment != j.segment || len(j.queue[n-1].frames)+size > chunkSize {
		j.queue = append(j.queue, chunk{segment: j.segment, frames: j.spare[:0]})
		j.spare = nil
		n = len(j.queue)
	}
	c := &j.queue[n-1]
	c.frames = appendFrame(c.frames, j.segment.salt, kindRecord, record)
	j.appended += Ticket(size)
	c.end = j.appended
	j.since += int64(size)
	j.askForCheckpoint()
	j.wakeWriter()
	return j.appended
}

// Commit waits until the record of ticket t and all before it are written: they
// survive the end of the process, by kill -9 too. With sync they have reached the
// disk: they survive the end of the machine. Those who wait at the same time
// share one write and one sync.
//
// An error says that this is not so yet. The records stay in their place in the
// queue and will be written when that is possible again, even if ctx has ended.
func (j *Journal) Commit(ctx context.Context, t Ticket, sync bool) error {
	j.mu.Lock()
	if done, err := j.answer(t, sync); done {
		j.mu.Unlock()
		return err
	}
	w := waiter{t, sync, make(chan error, 1)}
	j.waiting = append(j.waiting, w)
	j.wakeWriter()
	j.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("commit to journal: %w", context.Cause(ctx))
	}
}

// answer tells whether somebody who waits can be told something, and what. It
// needs j.mu.
func (j *Journal) answer(t Ticket, sync bool) (bool, error) {
	switch {
	case t <= j.synced, t <= j.written && !sync:
		return true, nil
	case j.err != nil:
		return true, fmt.Errorf("commit to journal: %w", j.err)
	default:
		return false, nil
	}
}

// settle answers all who can be answered. It needs j.mu.
func (j *Journal) settle() {
	j.waiting = slices.DeleteFunc(j.waiting, func(w waiter) bool {
		done, err := j.answer(w.ticket, w.sync)
		if done {
			w.done <- err
		}
		return done
	})
}

// Err says why nothing can be written at present, such as a full disk, or returns
// nil. Records that are appended meanwhile stay in memory, so that those who
// could wait must. The journal tries again by itself, every second.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close writes and syncs what is queued and gives the directory free. On an
// error some of it is not written. A checkpoint that is not done is lost.
func (j *Journal) Close() error {
	j.ending.Lock()
	defer j.ending.Unlock()
	j.mu.Lock()
	again := j.closed
	j.closed = true
	j.mu.Unlock()
	if again {
		return errClosed
	}
	close(j.closing)
	j.wakeWriter()
	j.writing.Wait()
	j.mu.Lock()
	err := j.err
	j.err = errClosed
	j.settle()
	j.mu.Unlock()
	if err = errors.Join(err, j.lock.Close()); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

func (j *Journal) wakeWriter() {
	select {
	case j.wake <- struct{}{}:
	default: // it has been told
	}
}
