package journal

import (
	"cmp"
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

	"github.com/batchfleet/batchfleet/safefile"
)

const (
	// defaultCheckpointAfter is [Options].CheckpointAfter unless that is set.
	defaultCheckpointAfter = 64 << 20

	// chunkSize is about how many bytes one write writes. Larger ones are not
	// faster.
	chunkSize = 1 << 20
)

// A Ticket is the position of a record in the journal: all records with lower tickets
// are before it.
type Ticket uint64

// noTicket is the ticket of a record that is never written.
const noTicket = Ticket(math.MaxUint64)

// ErrFailStop is the error of a journal that has stopped after a failed write or
// sync. Errors that wrap it wrap that failure, too.
var ErrFailStop = errors.New("journal stopped after a failure")

var errClosed = fmt.Errorf("journal: %w", os.ErrClosed)

// Options are the settings of a journal. Only Log is required.
type Options struct {
	// Log receives what was repaired and skipped, and failures.
	Log *slog.Logger

	// RetryAfterFailure makes the journal go on after a failed write or sync: it
	// tries again every second. What a failed sync may have lost it first reads
	// back and rewrites, and where that shows that the kernel has dropped it, the
	// failure stays. False stops the journal at the first failure.
	RetryAfterFailure bool

	// CheckpointAfter is how many bytes of records make the journal ask for a
	// checkpoint, if the last one was no larger; 0 means 64 MiB.
	CheckpointAfter int64
}

// A Journal is a directory of records, open for more. Its methods may be called
// concurrently.
type Journal struct {
	dir             string
	log             *slog.Logger
	retry           bool
	checkpointAfter int64
	lock            *os.File
	disk            disk

	wake    chan struct{} // there is work for the writer
	closing chan struct{}
	failed  chan struct{}
	want    chan struct{}
	writing sync.WaitGroup
	endMu   sync.Mutex // held while a checkpoint or the journal ends

	mu       sync.Mutex
	queue    []chunk
	spare    []byte   // a buffer to use again
	segment  *segment // where Append goes
	appended Ticket   // of the last record
	written  Ticket   // up to here records are written
	synced   Ticket   // and up to here synced
	waiting  []waiter
	err      error
	stopped  bool // after a failure; it stays so
	closed   bool

	segmentBytes   int64 // appended, or found, after the last checkpoint
	checkpointSize int64 // of the last checkpoint, in bytes
	askAgainAfter  int64 // how far segmentBytes may exceed its limit before the next request for a checkpoint
	checkpointing  bool
}

// A chunk is a sequence of frames for one segment.
type chunk struct {
	segment *segment
	frames  []byte
	end     Ticket // of the last frame
}

// A waiter is a call of Commit.
type waiter struct {
	ticket Ticket
	sync   bool
	done   chan error // has room for the answer
}

// Open locks dir, which it makes if it is missing, calls apply for each record
// there, in order, and returns a journal to append to. A record is only valid
// until apply returns.
//
// It is an error if another process has the directory open, which is named if
// possible; if others may write to the directory; or if a file cannot be opened.
// Damage is no error: see the package's documentation. Nor is an error of apply:
// it is logged, the record is skipped, and the others are applied.
func Open(dir string, opts Options, apply func(record []byte) error) (*Journal, error) {
	j, err := open(dir, opts, apply)
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, nil
}

func open(dir string, opts Options, apply func(record []byte) error) (_ *Journal, err error) {
	dir, err = filepath.Abs(dir) // a later chdir must not move the journal
	if err != nil {
		return nil, err
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir) // which may be a link
	if err != nil {
		return nil, err
	}
	// Others who may write to it could replace its files, also by links to the user's.
	if err := safefile.CheckDir(dir, info); err != nil {
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
	r := replayer{dir: dir, log: opts.Log, apply: apply}
	state, err := r.replayAll(l)
	if err != nil {
		return nil, err
	}
	opts.Log.Info("journal read", "dir", dir, "records", r.records, "bytes", state.segmentBytes+state.checkpointSize, "took", time.Since(start))
	j := &Journal{
		dir:             dir,
		log:             opts.Log,
		retry:           opts.RetryAfterFailure,
		checkpointAfter: cmp.Or(opts.CheckpointAfter, defaultCheckpointAfter),
		lock:            lock,
		disk:            realDisk{},
		wake:            make(chan struct{}, 1),
		closing:         make(chan struct{}),
		failed:          make(chan struct{}),
		want:            make(chan struct{}, 1),
		segment:         state.last,
		segmentBytes:    state.segmentBytes,
		checkpointSize:  state.checkpointSize,
	}
	j.askForCheckpoint()
	j.writing.Go(j.write)
	return j, nil
}

// Append queues a copy of record to be written soon. It never waits for the
// disk: the caller bounds what is queued, by waiting in Commit, and by accepting
// nothing new while Err is not nil. Once the journal has stopped or is closed,
// records are dropped and Commit of their tickets is an error. A record longer
// than [MaxRecord] panics.
func (j *Journal) Append(record []byte) Ticket {
	if len(record) > MaxRecord {
		panic(fmt.Sprintf("journal: record of %d bytes, the limit is %d", len(record), MaxRecord))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped || j.closed {
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
	j.segmentBytes += int64(size)
	j.askForCheckpoint()
	j.wakeWriter()
	return j.appended
}

// Commit waits until the record of ticket t and all before it are written: they
// survive the end of the process, also by kill -9. With sync they have reached
// the disk: they survive the end of the machine. Concurrent calls share one write
// and one sync.
//
// After an error the record may be replayed by the next Open, or not. Once the
// journal has stopped, the error is [ErrFailStop] for every ticket. With
// RetryAfterFailure an error means that the record is not committed yet: it stays
// queued and is written when that is possible again. So it is when ctx ends.
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

// answer reports whether a call of Commit can return, and with what error. The
// caller holds j.mu.
func (j *Journal) answer(t Ticket, sync bool) (bool, error) {
	switch {
	case !j.stopped && (t <= j.synced || t <= j.written && !sync):
		return true, nil
	case j.err != nil:
		return true, fmt.Errorf("commit to journal: %w", j.err)
	default:
		return false, nil
	}
}

// answerWaiters ends all calls of Commit that can return. The caller holds j.mu.
func (j *Journal) answerWaiters() {
	j.waiting = slices.DeleteFunc(j.waiting, func(w waiter) bool {
		done, err := j.answer(w.ticket, w.sync)
		if done {
			w.done <- err
		}
		return done
	})
}

// Err returns why nothing can be written, such as a full disk, or nil. It is
// [ErrFailStop] once the journal has stopped. With RetryAfterFailure it becomes nil
// again when a retry succeeds; records that are appended meanwhile stay in memory.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Failed returns a channel that is closed when the journal has stopped after a
// failure; Err then returns it. With RetryAfterFailure that never happens.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Close writes and syncs what is queued and unlocks the directory. After an error
// some of it is not written. A checkpoint that is not done is lost. It must also
// be called when the journal has stopped: it then only unlocks the directory, and
// returns [ErrFailStop].
func (j *Journal) Close() error {
	j.endMu.Lock()
	defer j.endMu.Unlock()
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
	if !j.stopped {
		j.err = errClosed
	}
	j.answerWaiters()
	j.mu.Unlock()
	if err = errors.Join(err, j.lock.Close()); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

func (j *Journal) wakeWriter() {
	select {
	case j.wake <- struct{}{}:
	default: // it is awake already
	}
}
