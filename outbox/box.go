// Package outbox keeps entries on disk and delivers each until its receiver has decided on it. A process
// that dies in between loses nothing.
//
//	box.Open → box.Load            what an earlier process has left
//	box.Put  → box.Deliver         on disk first, then on its way
//	box.Run: Try, pause, Try, …    until Try says that it is decided
//	box.Remove, or box.KeepAside   by Try, which knows what was decided
//
// An entry is a text with a name, on disk whole or not at all: a record of a journal, so that entries
// that are put at the same time share one write and one sync. It may be delivered more than once: when the
// process dies after the receiver has decided and before that is on disk. The receiver must recognize it.
//
// Entries are delivered independently of each other and in no order; what must arrive in order is one entry.
// The package does not know what an entry says, who receives it, or which answers are a decision. Who keeps
// entries in files of their own uses only its [Sender].
package outbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/journal"
	"github.com/batchfleet/batchfleet/safefile"
)

// Box is a directory of entries and their delivery:
//
//	lock       held while a process uses the directory
//	journal/   the entries
//	FILES/     entries of an earlier version, which had a file for each: Load takes them over
//	ASIDE/...  for people, not read again: deleted when they are older than KeepFor or too many
//	corrupt/   entries that could not be read; the same
//
// Set the exported fields, call [Box.Open], [Box.Load] and [Box.Run], then [Box.Close]. The other methods
// may be called concurrently, also beside Run.
type Box struct {
	Dir      string        // made if it is missing; for the owner alone
	Files    string        // the directory in Dir where an earlier version had its entries; empty if there was none
	Aside    []string      // the directories in Dir for what is kept aside
	MaxEntry int64         // bytes of an entry
	KeepFor  time.Duration // how long what is kept aside stays
	Sender

	lock     *os.File
	journal  *journal.Journal
	commit   func(t journal.Ticket, sync bool) error // waits until a record is written, or synced
	checking sync.Mutex                              // one check at a time: they share a file

	mu      sync.Mutex
	entries map[string][]byte // as the journal has them, also those not yet synced
	written time.Time         // when an entry was last put
}

const (
	journalDir = "journal"
	corruptDir = "corrupt" // of entries that could not be read
)

// ErrInUse means that another process uses the directory.
var ErrInUse = errors.New("another process uses the directory")

// Open makes and locks the directory, and deletes files that were never finished. The error wraps
// [ErrInUse] when another process has it. A directory that others may write to is refused.
func (b *Box) Open() error {
	if err := safefile.Dir(b.Dir); err != nil {
		return err
	}
	lock, err := safefile.OpenOrMake(filepath.Join(b.Dir, "lock"))
	if err != nil {
		return err
	}
	if err := b.prepare(lock); err != nil {
		_ = lock.Close() // nothing was written
		return err
	}
	b.lock = lock
	return nil
}

func (b *Box) prepare(lock *os.File) error {
	if err := flock.Lock(lock); errors.Is(err, flock.ErrLocked) {
		return ErrInUse
	} else if err != nil {
		return fmt.Errorf("lock %s: %w", b.Dir, err)
	}
	for _, sub := range append([]string{journalDir}, b.asideDirs()...) {
		if err := b.makeDir(sub); err != nil {
			return err
		}
	}
	if err := safefile.SyncDir(b.Dir); err != nil {
		return err
	}
	return b.openJournal()
}

// makeDir makes a directory that others may not write to, and removes unfinished files.
func (b *Box) makeDir(sub string) error {
	path := filepath.Join(b.Dir, sub)
	if err := safefile.Dir(path); err != nil {
		return err
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), safefile.TempPrefix) {
			if err := os.Remove(filepath.Join(path, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// writtenLately is for how long an entry that was put shows that there will be room for another.
const writtenLately = time.Second

// Check reports whether entries can be written. It may be called for each of them, so it does not wait
// for the disk, and looks only when none was written lately.
func (b *Box) Check() error {
	b.mu.Lock()
	lately := time.Since(b.written) < writtenLately
	b.mu.Unlock()
	if err := b.journal.Err(); err != nil || lately {
		return err
	}
	b.checking.Lock()
	defer b.checking.Unlock()
	path := filepath.Join(b.Dir, journalDir, safefile.TempPrefix+"check")
	f, err := safefile.OpenOrMake(path)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096)) // an empty file can be written to a full disk
	return errors.Join(err, f.Close(), os.Remove(path))
}

// Close unlocks the directory, for the next process. Call it after [Box.Run] has ended.
func (b *Box) Close() error { return errors.Join(b.journal.Close(), b.lock.Close()) }

// Run delivers as [Sender.Run] does, and meanwhile keeps the directory in order.
func (b *Box) Run(ctx context.Context) {
	var keeping sync.WaitGroup
	keeping.Go(func() { b.sweepUntil(ctx) })
	keeping.Go(func() { b.checkpointUntil(ctx) })
	b.Sender.Run(ctx)
	keeping.Wait()
}
