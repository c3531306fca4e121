package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/journal"
)

// onDiskThatFills puts j on a disk that has no space while full returns true.
func onDiskThatFills(j *journal.Journal) (full *atomic.Bool) {
	full = new(atomic.Bool)
	j.SetDisk(journal.FailingDisk{OnWrite: func([]byte, int64) error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return nil
	}})
	return full
}

func TestE06JournalWritesAgainWhenThereIsSpace(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, _ := open(t, dir)
		full := onDiskThatFills(j)
		appendAll(t, j, "before")
		full.Store(true)
		start := time.Now()
		lost := j.Append([]byte("during"))
		for _, sync := range []bool{false, true} {
			if err := j.Commit(t.Context(), lost, sync); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Commit on a full disk = %v", err)
			}
		}
		if time.Since(start) > 0 {
			t.Errorf("Commit on a full disk waits %v", time.Since(start))
		}
		for i := range 10 {
			j.Append(fmt.Appendf(nil, "queued %d", i))
			time.Sleep(700 * time.Millisecond)
			if err := j.Err(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Err = %v", err)
			}
		}
		if _, err := j.Checkpoint(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Checkpoint on a full disk = %v", err)
		}
		full.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if err := j.Err(); err != nil {
			t.Errorf("a second after there is space, Err = %v", err)
		}
		appendAll(t, j, "after")
		closed(t, j)
	})
	_, got := open(t, dir)
	want := []string{"before", "during"}
	for i := range 10 {
		want = append(want, fmt.Sprintf("queued %d", i))
	}
	wantRecords(t, got, append(want, "after")...)
}

func TestE06JournalKilledOnAFullDiskIsOnlyTorn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, _ := open(t, dir)
		full := onDiskThatFills(j)
		appendAll(t, j, "before")
		size := len(readFile(t, only(t, dir, "segment.*")))
		full.Store(true)
		if err := j.Commit(t.Context(), j.Append([]byte(strings.Repeat("x", 1000))), false); err == nil {
			t.Error("Commit on a full disk succeeds")
		}
		if now := len(readFile(t, only(t, dir, "segment.*"))); now != size {
			t.Errorf("the segment has %d bytes, want the %d of its whole frames", now, size)
		}
		if err := j.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close = %v", err)
		}
	})
	_, got := open(t, dir)
	wantRecords(t, got, "before")
}

func TestE06JournalFailedSyncIsWrittenAgain(t *testing.T) {
	// The kernel drops what it could not sync: only written once more does it get
	// another chance.
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, _ := open(t, dir)
		var mu sync.Mutex
		var did []string
		failures := 2
		j.SetDisk(journal.FailingDisk{
			OnWrite: func(b []byte, at int64) error {
				mu.Lock()
				defer mu.Unlock()
				did = append(did, fmt.Sprintf("write %d at %d", len(b), at))
				return nil
			},
			OnSync: func() error {
				mu.Lock()
				defer mu.Unlock()
				if failures > 0 {
					failures--
					did = append(did, "fail to sync")
					return syscall.EIO
				}
				did = append(did, "sync")
				return nil
			},
		})
		ticket := j.Append([]byte("1234"))
		if err := j.Commit(t.Context(), ticket, true); !errors.Is(err, syscall.EIO) || !errors.Is(j.Err(), syscall.EIO) {
			t.Errorf("Commit = %v, Err = %v", err, j.Err())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := errors.Join(j.Err(), j.Commit(t.Context(), ticket, true)); err != nil {
			t.Errorf("after the disk works again: %v", err)
		}
		want := []string{"write 20 at 0", "fail to sync", "write 20 at 0", "fail to sync", "write 20 at 0", "sync"}
		if !slices.Equal(did, want) {
			t.Errorf("the journal did %q, want %q", did, want)
		}
		closed(t, j)
	})
	_, got := open(t, dir)
	wantRecords(t, got, "1234")
}

func TestE06JournalConcurrentCommitsShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := open(t, t.TempDir())
		var syncs atomic.Int64
		j.SetDisk(journal.FailingDisk{OnSync: func() error {
			syncs.Add(1)
			time.Sleep(time.Millisecond)
			return nil
		}})
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if err := j.Commit(t.Context(), j.Append([]byte{byte(i)}), true); err != nil {
					t.Errorf("commit: %v", err)
				}
			})
		}
		all.Wait()
		// The first may be alone; those who come during it share the second.
		if n := syncs.Load(); n > 2 {
			t.Errorf("100 commits took %d syncs, want at most 2", n)
		}
		if n := j.Waiting(); n != 0 {
			t.Errorf("%d are still waiting", n)
		}
		closed(t, j)
	})
}

func TestE06JournalSegmentIsSyncedBeforeTheNextIsWritten(t *testing.T) {
	// Or a power cut could leave a hole in the middle.
	dir := t.TempDir()
	j, _ := open(t, dir)
	var mu sync.Mutex
	var did []string
	note := func(s string) error {
		mu.Lock()
		defer mu.Unlock()
		did = append(did, s)
		return nil
	}
	j.SetDisk(journal.FailingDisk{
		OnWrite: func([]byte, int64) error { return note("write") },
		OnSync:  func() error { return note("sync") },
	})
	if err := j.Commit(t.Context(), j.Append([]byte("a")), false); err != nil {
		t.Fatal(err)
	}
	begin(t, j).Abort()
	if err := j.Commit(t.Context(), j.Append([]byte("b")), false); err != nil {
		t.Fatal(err)
	}
	if want := []string{"write", "sync", "write"}; !slices.Equal(did, want) {
		t.Errorf("the journal did %q, want %q", did, want)
	}
	closed(t, j)
	_, got := open(t, dir)
	wantRecords(t, got, "a", "b")
}

func TestE06JournalSaysWhenAFailedSyncHasLostBytes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, _ := open(t, dir)
		var once sync.Once
		j.SetDisk(journal.FailingDisk{OnSync: func() (err error) {
			once.Do(func() { // as if the pages had been given up, and what the disk has is read
				writeFile(t, only(t, dir, "segment.*"), make([]byte, 20))
				err = syscall.EIO
			})
			return err
		}})
		if err := j.Commit(t.Context(), j.Append([]byte("1234")), true); !errors.Is(err, syscall.EIO) {
			t.Errorf("Commit = %v", err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for what, err := range map[string]error{"Err": j.Err(), "Close": j.Close()} {
			if err == nil || !strings.Contains(err.Error(), "lost what was written at 0") {
				t.Errorf("%s = %v", what, err)
			}
		}
	})
}

func TestE06JournalCheckpointWaitsForTheRecordsBeforeIt(t *testing.T) {
	// They belong into segments that it is about to delete.
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, _ := open(t, dir)
		var once sync.Once
		j.SetDisk(journal.FailingDisk{OnWrite: func([]byte, int64) (err error) {
			once.Do(func() {
				time.Sleep(time.Minute)
				err = syscall.ENOSPC
			})
			return err
		}})
		j.Append([]byte("a"))
		c := begin(t, j)
		if err := c.Done(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Done = %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		appendAll(t, j, "b")
		closed(t, j)
	})
	_, got := open(t, dir)
	wantRecords(t, got, "a", "b")
}
