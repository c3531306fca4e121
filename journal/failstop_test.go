package journal_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/journal"
)

func failed(j *journal.Journal) bool {
	select {
	case <-j.Failed():
		return true
	default:
		return false
	}
}

// After its first failure the journal writes and syncs nothing any more, whatever
// the owner does, and says why.
func TestFailStopNothingIsTriedAgain(t *testing.T) {
	for _, step := range []string{"write", "sync"} {
		t.Run("failed "+step, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				j, _ := openWith(t, dir, journal.Options{})
				var broken atomic.Bool
				var after atomic.Int32 // calls of the disk since the failure, with it
				call := func(name string) error {
					if broken.Load() && (name == step || after.Load() > 0) {
						after.Add(1)
						return syscall.EIO
					}
					return nil
				}
				j.SetDisk(journal.FailingDisk{
					OnWrite: func([]byte, int64) error { return call("write") },
					OnSync:  func() error { return call("sync") },
				})
				before := j.Append([]byte("before"))
				if err := j.Commit(t.Context(), before, true); err != nil || failed(j) {
					t.Fatalf("Commit = %v, failed: %v", err, failed(j))
				}
				broken.Store(true)
				var waiting sync.WaitGroup
				for i := range 10 {
					waiting.Go(func() {
						if err := j.Commit(t.Context(), j.Append(fmt.Appendf(nil, "waiting %d", i)), true); !errors.Is(err, journal.ErrFailStop) || !errors.Is(err, syscall.EIO) {
							t.Errorf("Commit during the failure = %v", err)
						}
					})
				}
				waiting.Wait()
				if !failed(j) {
					t.Error("Failed is not closed")
				}
				broken.Store(false) // the disk would take it now
				time.Sleep(time.Hour)
				_, checkpointErr := j.Checkpoint()
				for what, err := range map[string]error{
					"Commit":                         j.Commit(t.Context(), j.Append([]byte("after")), true),
					"Commit without sync":            j.Commit(t.Context(), j.Append([]byte("after")), false),
					"Commit of what was committed":   j.Commit(t.Context(), before, true),
					"Err":                            j.Err(),
					"Checkpoint":                     checkpointErr,
					"Close":                          j.Close(),
					"Commit after Close":             j.Commit(t.Context(), j.Append([]byte("after")), true),
					"Commit of the old, after Close": j.Commit(t.Context(), before, false),
				} {
					if !errors.Is(err, journal.ErrFailStop) || !errors.Is(err, syscall.EIO) {
						t.Errorf("%s = %v, want ErrFailStop and EIO", what, err)
					}
				}
				if n := after.Load(); n != 1 {
					t.Errorf("%d calls of the disk failed, want only the first", n)
				}
			})
			j, got, _ := openLogged(t, dir, journal.Options{})
			if len(got) == 0 || got[0] != "before" || slices.Contains(got, "after") {
				t.Errorf("then there is %q", got)
			}
			closed(t, j)
		})
	}
}

func TestFailStopFailedLastSyncIsReportedByClose(t *testing.T) {
	j, _ := openWith(t, t.TempDir(), journal.Options{})
	syncs := 0
	j.SetDisk(journal.FailingDisk{OnSync: func() error { syncs++; return syscall.EIO }})
	ticket := j.Append([]byte("a"))
	if err := j.Commit(t.Context(), ticket, false); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); !errors.Is(err, journal.ErrFailStop) || !errors.Is(err, syscall.EIO) {
		t.Errorf("Close = %v", err)
	}
	if err := j.Commit(t.Context(), ticket, true); !errors.Is(err, journal.ErrFailStop) {
		t.Errorf("Commit = %v", err)
	}
	if syncs != 1 || !failed(j) {
		t.Errorf("%d syncs, failed: %v; want one, and Failed closed", syncs, failed(j))
	}
}

func TestFailStopIsLoggedOnce(t *testing.T) {
	var log testlog.Buffer
	j, err := journal.Open(t.TempDir(), journal.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j.SetDisk(journal.FailingDisk{OnSync: func() error { return syscall.EIO }})
	for range 3 {
		if err := j.Commit(t.Context(), j.Append([]byte("a")), true); !errors.Is(err, journal.ErrFailStop) {
			t.Errorf("Commit = %v", err)
		}
	}
	_ = j.Close() // ErrFailStop
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "journal stopped") {
		t.Errorf("%d errors are logged, want one:\n%s", n, log.String())
	}
}

func TestFailStopAJournalThatRetriesNeverFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, _ := open(t, dir)
		var once sync.Once
		j.SetDisk(journal.FailingDisk{OnSync: func() (err error) {
			once.Do(func() { err = syscall.EIO })
			return err
		}})
		ticket := j.Append([]byte("a"))
		if err := j.Commit(t.Context(), ticket, true); !errors.Is(err, syscall.EIO) || errors.Is(err, journal.ErrFailStop) {
			t.Errorf("Commit = %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := j.Commit(t.Context(), ticket, true); err != nil || failed(j) {
			t.Errorf("Commit = %v, failed: %v", err, failed(j))
		}
		closed(t, j)
	})
}

// TestFailStopKeepsAPrefixWithAllThatWasCommitted breaks the disk at any write or
// sync of any history and opens the directory again.
func TestFailStopKeepsAPrefixWithAllThatWasCommitted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "") //nolint:usetesting // one for each check
		if err != nil {
			rt.Fatal(err)
		}
		d := &breakingDisk{
			synced:  make(map[string]int64),
			breakAt: rapid.IntRange(1, 25).Draw(rt, "call that fails"),
			loses:   rapid.SampledFrom([]string{"nothing", "bytes", "the end"}).Draw(rt, "a failed sync loses"),
		}
		j, _ := openWith(t, dir, journal.Options{})
		j.SetDisk(journal.FailingDisk{OnWrite: func([]byte, int64) error { return d.call(nil) }, OnSyncFile: d.call})
		var appended []string
		committed, written := 0, 0 // how many, with sync and without
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			for range rapid.IntRange(0, 3).Draw(rt, "records") {
				appended = append(appended, fmt.Sprintf("%d %s", len(appended), strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 5000}).Draw(rt, "bytes"))))
				j.Append([]byte(appended[len(appended)-1]))
			}
			last := j.Append(nil)
			appended = append(appended, "")
			switch rapid.SampledFrom([]string{"sync", "write", "go on", "checkpoint", "abort"}).Draw(rt, "then") {
			case "sync":
				if j.Commit(t.Context(), last, true) == nil {
					committed = len(appended)
				}
			case "write":
				if j.Commit(t.Context(), last, false) == nil {
					written = len(appended)
				}
			case "checkpoint":
				if c, err := j.Checkpoint(); err == nil {
					for _, r := range appended {
						err = errors.Join(err, c.Add([]byte(r)))
					}
					if errors.Join(err, c.Done()) == nil {
						committed = len(appended)
					}
				}
			case "abort":
				if c, err := j.Checkpoint(); err == nil {
					c.Abort()
				}
			}
		}
		err = j.Close()
		if broken := d.brokenCalls(); broken > 1 || (broken == 1) != errors.Is(err, journal.ErrFailStop) || (broken == 1) != failed(j) {
			rt.Errorf("%d calls of the disk failed, Close = %v, failed: %v", broken, err, failed(j))
		}
		if err == nil {
			committed = len(appended)
		}
		if d.loses == "nothing" {
			committed = max(committed, written)
		}
		j, got, _ := openLogged(t, dir, journal.Options{})
		if len(got) < committed || len(got) > len(appended) || !slices.Equal(got, appended[:len(got)]) {
			rt.Errorf("%d of %d records were committed, and there are %.30q", committed, len(appended), got)
		}
		closed(t, j)
	})
}

// A breakingDisk fails at one call, and at all that follow it.
type breakingDisk struct {
	breakAt int
	loses   string

	mu     sync.Mutex
	calls  int
	synced map[string]int64 // bytes of each segment that a power cut leaves
}

// call is a write, or a sync of a file.
func (d *breakingDisk) call(synced *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if synced == nil {
		if d.calls < d.breakAt {
			return nil
		}
		return syscall.EIO
	}
	info, err := synced.Stat()
	if err != nil {
		return err
	}
	if d.calls < d.breakAt {
		d.synced[synced.Name()] = info.Size()
		return nil
	}
	return errors.Join(syscall.EIO, d.lose(synced, d.synced[synced.Name()], info.Size()))
}

// lose makes the segment what the disk may hold of it after a failed sync.
func (d *breakingDisk) lose(f *os.File, from, to int64) error {
	switch d.loses {
	case "bytes":
		_, err := f.WriteAt(make([]byte, to-from), from)
		return err
	case "the end":
		return f.Truncate(from)
	default:
		return nil
	}
}

func (d *breakingDisk) brokenCalls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(0, d.calls-d.breakAt+1)
}
