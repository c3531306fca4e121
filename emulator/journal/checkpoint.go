package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WantsCheckpoint receives when the segments have outgrown CheckpointAfter and
// the last checkpoint. It receives again if nobody makes one and they have
// grown by a quarter more.
func (j *Journal) WantsCheckpoint() <-chan struct{} { return j.want }

// askForCheckpoint needs j.mu.
func (j *Journal) askForCheckpoint() {
	limit := max(j.CheckpointAfter, j.checkpointed)
	if j.since < limit+j.patience || j.checkpointing {
		return
	}
	j.patience = j.since - limit + max(limit/4, 1)
	select {
	case j.want <- struct{}{}:
	default: // nobody has listened yet
	}
}

// A Checkpoint is one that is being written, by one goroutine. It must end with
// Done or Abort.
type Checkpoint struct {
	j      *Journal
	file   file
	before Ticket // of the last record that it makes superfluous
	since  int64  // how many bytes those are

	out     *os.File // nil before anything was added
	buf     []byte
	size    int64
	records uint64
	err     error
	ended   bool
}

// Checkpoint begins one, without touching the disk. What is appended from now on
// is behind it. The caller has stopped all changes, remembers the state, lets
// changes go on, and adds the records of the state.
//
// There can be one at a time, and none while Err is not nil.
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
	// The writer moves on even if nothing is appended, and frees the old segment.
	j.queue = append(j.queue, chunk{segment: j.segment, end: j.appended})
	j.wakeWriter()
	j.checkpointing = true
	select {
	case <-j.want: // it has its wish
	default:
	}
	return &Checkpoint{j: j, file: newFile(checkpointFile, number), before: j.appended, since: j.since}, nil
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

// Done makes the checkpoint count, and then deletes what it replaces. On an
// error nothing is deleted, and Abort need not be called.
func (c *Checkpoint) Done() error {
	c.j.ending.Lock() // or Close could let go of the directory meanwhile
	defer c.j.ending.Unlock()
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

// steps are what makes it count. A crash between any two of them leaves the old
// state or the new one.
func (c *Checkpoint) steps() []func() error {
	return []func() error{
		func() error { return c.add(kindEnd, binary.LittleEndian.AppendUint64(nil, c.records)) },
		c.flush,
		// The writer must be done with the segments that will be deleted.
		func() error { return c.j.Commit(context.Background(), c.before, false) },
		func() error {
			err := errors.Join(datasync(c.out), c.out.Close())
			c.out = nil
			return err
		},
		func() error {
			if err := c.j.checkDir(); err != nil { // it may be another journal's by now
				return err
			}
			return os.Rename(c.tmp(), filepath.Join(c.j.dir, c.file.name()))
		},
		func() error { return syncDir(c.j.dir) },
	}
}

// Abort gives the checkpoint up. It does nothing once the checkpoint has ended.
func (c *Checkpoint) Abort() {
	if c.ended {
		return
	}
	if c.out != nil {
		_ = c.out.Close() // of no use any more
	}
	_ = os.Remove(c.tmp()) // or the next Open does it
	c.end(false)
}

// end lets the journal want another one.
func (c *Checkpoint) end(done bool) {
	c.ended = true
	c.j.mu.Lock()
	defer c.j.mu.Unlock()
	c.j.checkpointing = false
	if done {
		c.j.since -= c.since
		c.j.checkpointed = c.size
		c.j.patience = 0
	}
	c.j.askForCheckpoint()
}
