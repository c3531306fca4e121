package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/batchfleet/batchfleet/safefile"
)

// WantsCheckpoint receives when the segments have outgrown CheckpointAfter and
// the last checkpoint. If no checkpoint follows, it receives again when they have
// grown by a quarter more.
func (j *Journal) WantsCheckpoint() <-chan struct{} { return j.want }

// askForCheckpoint sends on j.want when the segments are large enough. The caller
// holds j.mu.
func (j *Journal) askForCheckpoint() {
	limit := max(j.checkpointAfter, j.checkpointSize)
	if j.segmentBytes < limit+j.askAgainAfter || j.checkpointing {
		return
	}
	j.askAgainAfter = j.segmentBytes - limit + max(limit/4, 1)
	select {
	case j.want <- struct{}{}:
	default: // the last one was not received yet
	}
}

// A Checkpoint is one that is being written, by one goroutine. It must end with
// Done or Abort.
type Checkpoint struct {
	j        *Journal
	file     file
	last     Ticket // of the records that it replaces
	replaces int64  // bytes of those records

	out     *os.File // nil before the first write
	buf     []byte
	size    int64
	records uint64
	err     error
	ended   bool
}

// Checkpoint begins one, without touching the disk. What is appended from now on
// comes after it. The caller stops all changes before the call, copies its state
// after it, lets changes go on, and adds the records of the copy.
//
// There can be one at a time, and none while Err is not nil. One that fails does
// not stop the journal.
func (j *Journal) Checkpoint() (*Checkpoint, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return nil, fmt.Errorf("begin checkpoint: %w", errClosed)
	case j.err != nil:
		return nil, fmt.Errorf("begin checkpoint: %w", j.err)
	case j.checkpointing:
		return nil, errors.New("begin checkpoint: there is one already")
	}
	number := j.segment.number + 1
	j.segment = &segment{file: newFile(segmentFile, number)}
	// Without frames: the writer closes the old segment even if no record follows.
	j.queue = append(j.queue, chunk{segment: j.segment, end: j.appended})
	j.wakeWriter()
	j.checkpointing = true
	select {
	case <-j.want: // this is the checkpoint it asks for
	default:
	}
	return &Checkpoint{j: j, file: newFile(checkpointFile, number), last: j.appended, replaces: j.segmentBytes}, nil
}

// Add adds a record of the state. Once it has failed, so does all that follows.
func (c *Checkpoint) Add(record []byte) error {
	if len(record) > MaxRecord {
		return fmt.Errorf("add to checkpoint: record of %d bytes, the limit is %d", len(record), MaxRecord)
	}
	c.records++
	return c.add(kindRecord, record)
}

func (c *Checkpoint) add(kind byte, record []byte) error {
	c.buf = appendFrame(c.buf, c.file.salt, kind, record)
	if len(c.buf) < chunkSize {
		return c.err
	}
	return c.flush()
}

func (c *Checkpoint) flush() error {
	if c.err != nil {
		c.buf = c.buf[:0]
		return c.err
	}
	if c.out == nil {
		c.out, c.err = os.OpenFile(c.tmp(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	}
	if c.err == nil {
		_, c.err = c.out.Write(c.buf)
	}
	if c.err != nil {
		c.err = fmt.Errorf("add to checkpoint: %w", c.err)
	}
	c.size += int64(len(c.buf))
	c.buf = c.buf[:0]
	return c.err
}

func (c *Checkpoint) tmp() string { return filepath.Join(c.j.dir, c.file.name()) + tmpSuffix }

// Done makes the checkpoint valid, and then deletes what it replaces. On an error
// nothing is deleted, and Abort need not be called.
func (c *Checkpoint) Done() error {
	c.j.endMu.Lock() // Close unlocks the directory: not before this has returned
	defer c.j.endMu.Unlock()
	if c.ended {
		return errors.New("end checkpoint: it has ended")
	}
	c.j.mu.Lock()
	closed := c.j.closed
	c.j.mu.Unlock()
	if closed {
		c.Abort()
		return fmt.Errorf("end checkpoint: %w", errClosed)
	}
	for _, step := range c.steps() {
		if err := step(); err != nil {
			c.Abort()
			return fmt.Errorf("end checkpoint: %w", err)
		}
	}
	c.end(true)
	if err := removeBefore(c.j.dir, c.file.number); err != nil {
		c.j.log.Warn("old files are left in the journal", "err", err)
	}
	return nil
}

// steps are what makes it valid. A crash between any two of them leaves the old
// state or the new one.
func (c *Checkpoint) steps() []func() error {
	return []func() error{
		func() error { return c.add(kindEnd, binary.LittleEndian.AppendUint64(nil, c.records)) },
		c.flush,
		// The writer must be done with the segments that will be deleted.
		func() error { return c.j.Commit(context.Background(), c.last, false) },
		func() error {
			err := errors.Join(datasync(c.out), c.out.Close())
			c.out = nil
			return err
		},
		func() error {
			if err := c.j.checkDir(); err != nil { // the directory may be another journal's by now
				return err
			}
			return os.Rename(c.tmp(), filepath.Join(c.j.dir, c.file.name()))
		},
		func() error { return safefile.SyncDir(c.j.dir) },
	}
}

// Abort abandons the checkpoint. It does nothing once the checkpoint has ended.
func (c *Checkpoint) Abort() {
	if c.ended {
		return
	}
	if c.out != nil {
		_ = c.out.Close() // the file is removed
	}
	_ = os.Remove(c.tmp()) // what is left, the next Open removes
	c.end(false)
}

// end allows the next checkpoint.
func (c *Checkpoint) end(done bool) {
	c.ended = true
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	c.j.checkpointing = false
	if done {
		c.j.segmentBytes -= c.replaces
		c.j.checkpointSize = c.size
		c.j.askAgainAfter = 0
	}
	c.j.askForCheckpoint()
}
