package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/journal"
	"github.com/batchfleet/batchfleet/safefile"
)

const (
	// maxEntries bounds how many entries are read. More are not a box's.
	maxEntries = 10_000
	// checkpointAfter is how many bytes of records, most of them of entries that are gone, the journal gathers.
	checkpointAfter = 4 << 20
)

// openJournal opens the journal and reads the entries that it holds.
func (b *Box) openJournal() (err error) {
	b.entries = map[string][]byte{}
	// A disk that was full for a while must not end the process.
	options := journal.Options{Log: b.Log, RetryAfterFailure: true, CheckpointAfter: checkpointAfter}
	b.journal, err = journal.Open(filepath.Join(b.Dir, journalDir), options, func(r []byte) error {
		name, text, put, err := parseRecord(r)
		switch {
		case err != nil:
			return err
		case put:
			b.entries[name] = slices.Clone(text)
		default:
			delete(b.entries, name)
		}
		return nil
	})
	b.commit = func(t journal.Ticket, sync bool) error {
		return b.journal.Commit(context.Background(), t, sync) // a disk has no deadline
	}
	return err
}

// Load calls read for each entry that an earlier process has left, by name. An entry that read returns
// an error for, or that cannot be read, is moved to corrupt/ with a warning in the log.
func (b *Box) Load(ctx context.Context, read func(name string, text []byte) error) error {
	if err := b.takeOver(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	entries := maps.Clone(b.entries)
	b.mu.Unlock()
	if len(entries) > maxEntries {
		return fmt.Errorf("%s holds %d entries, at most %d are read", b.Dir, len(entries), maxEntries)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		text := entries[name]
		var err error
		if int64(len(text)) > b.MaxEntry {
			err = fmt.Errorf("it is longer than %d bytes", b.MaxEntry)
		} else {
			err = read(name, text)
		}
		if err == nil {
			continue
		}
		to := filepath.Join(b.Dir, corruptDir, name)
		b.Log.WarnContext(ctx, "cannot read an entry of an earlier run, moving it", "entry", name, "to", to, "err", err)
		if err := safefile.Replace(to, text); err != nil {
			b.Log.WarnContext(ctx, "cannot move an entry, leaving it where it is", "entry", name, "err", err)
			continue
		}
		b.Remove(name)
	}
	return nil
}

// takeOver puts the entries that an earlier version has left as files into the journal. A file that cannot be
// read is moved to corrupt/.
func (b *Box) takeOver(ctx context.Context) error {
	if b.Files == "" {
		return nil
	}
	dir := filepath.Join(b.Dir, b.Files)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if len(files) > maxEntries {
		return fmt.Errorf("%s holds %d files, at most %d are read", dir, len(files), maxEntries)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if strings.HasPrefix(f.Name(), safefile.TempPrefix) { // it was never finished
			err = os.Remove(path)
		} else if text, unreadable := safefile.Read(path, b.MaxEntry); unreadable != nil {
			to := filepath.Join(b.Dir, corruptDir, f.Name())
			b.Log.WarnContext(ctx, "cannot read an entry of an earlier version, moving it", "file", path, "to", to, "err", unreadable)
			if err := os.Rename(path, to); err != nil { // it may be a directory, and a file there
				b.Log.WarnContext(ctx, "cannot move an entry, leaving it where it is", "file", path, "err", err)
			}
		} else if err = b.Put(f.Name(), text); err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	_ = os.Remove(dir) // unless something is left in it
	return nil
}

// Entry is a text with a name. The name may become a file's.
type Entry struct {
	Name string
	Text []byte
}

// Put writes an entry in place of an earlier one of its name. When it returns nil, the entry survives a power cut.
// After an error the earlier one, or none, is there; unless the process ends before that is on disk, too. Entries
// that are put at the same time share one write and one sync.
func (b *Box) Put(name string, text []byte) error { return b.put(true, Entry{name, text}) }

// PutUnsynced is Put of entries with different names, all or none. They survive the end of the process, also by
// kill -9, but perhaps no power cut.
func (b *Box) PutUnsynced(entries ...Entry) error { return b.put(false, entries...) }

func (b *Box) put(sync bool, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		if err := validName(e.Name); err != nil {
			return err
		}
	}
	before := make([][]byte, len(entries)) // nil if there was none
	var ticket journal.Ticket
	b.mu.Lock()
	for i, e := range entries {
		before[i] = b.entries[e.Name]
		b.entries[e.Name] = e.Text
		ticket = b.journal.Append(putRecord(e.Name, e.Text))
	}
	b.mu.Unlock()
	err := b.commit(ticket, sync)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.written = time.Now()
		return nil
	}
	for i, e := range entries { // what could not be written is still queued, and this behind it
		if before[i] == nil {
			b.remove(e.Name)
			continue
		}
		b.entries[e.Name] = before[i]
		b.journal.Append(putRecord(e.Name, before[i]))
	}
	return err
}

// Remove deletes an entry, if there is one. It does not wait for the disk: an entry that comes back after a
// power cut is delivered again.
func (b *Box) Remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.entries[name]; ok {
		b.remove(name)
	}
}

// remove deletes an entry. b.mu is held.
func (b *Box) remove(name string) {
	delete(b.entries, name)
	b.journal.Append(removeRecord(name))
}

// checkpointUntil writes a checkpoint of the journal whenever it wants one, until ctx ends.
func (b *Box) checkpointUntil(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.journal.WantsCheckpoint():
		}
		if err := b.checkpoint(); err != nil { //nolint:contextcheck // a disk has no deadline
			b.Log.WarnContext(ctx, "cannot write a checkpoint of the entries, trying again later", "dir", b.Dir, "err", err)
			if jobs.Sleep(ctx, time.Second) != nil {
				return
			}
		}
	}
}

func (b *Box) checkpoint() error {
	b.mu.Lock()
	c, err := b.journal.Checkpoint()
	entries := maps.Clone(b.entries)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	for name, text := range entries {
		err = errors.Join(err, c.Add(putRecord(name, text)))
	}
	if err != nil {
		c.Abort()
		return err
	}
	return c.Done()
}
