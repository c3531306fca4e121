package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/journal"
)

// retrying are options that log nothing, of a journal that goes on after a
// failure.
var retrying = journal.Options{Log: slog.New(slog.DiscardHandler), RetryAfterFailure: true}

// open opens a journal that goes on after a failure and returns it with the
// records it had.
func open(tb testing.TB, dir string) (*journal.Journal, []string) {
	tb.Helper()
	return openWith(tb, dir, retrying)
}

// openWith opens the journal, which must log no warning.
func openWith(tb testing.TB, dir string, opts journal.Options) (*journal.Journal, []string) {
	tb.Helper()
	j, records, log := openLogged(tb, dir, opts)
	if log != "" {
		tb.Errorf("opening the journal logs\n%s", log)
	}
	return j, records
}

// openLogged also returns what was logged, from Warn on.
func openLogged(tb testing.TB, dir string, opts journal.Options) (*journal.Journal, []string, string) {
	tb.Helper()
	var out bytes.Buffer
	opts.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var records []string
	j, err := journal.Open(dir, opts, func(record []byte) error {
		records = append(records, string(record))
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = j.Close() }) // most have closed it
	return j, records, out.String()
}

func appendAll(tb testing.TB, j *journal.Journal, records ...string) {
	tb.Helper()
	var last journal.Ticket
	for _, r := range records {
		last = j.Append([]byte(r))
	}
	if err := j.Commit(tb.Context(), last, true); err != nil {
		tb.Fatal(err)
	}
}

func closed(tb testing.TB, j *journal.Journal) {
	tb.Helper()
	if err := j.Close(); err != nil {
		tb.Fatal(err)
	}
}

// begin begins a checkpoint.
func begin(tb testing.TB, j *journal.Journal) *journal.Checkpoint {
	tb.Helper()
	c, err := j.Checkpoint()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func checkpoint(tb testing.TB, j *journal.Journal, records ...string) {
	tb.Helper()
	c := begin(tb, j)
	for _, r := range records {
		if err := c.Add([]byte(r)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := c.Done(); err != nil {
		tb.Fatal(err)
	}
}

func wantRecords(tb testing.TB, got []string, want ...string) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("records (-want +got):\n%s", diff)
	}
}

// glob returns the names of the files that match.
func glob(tb testing.TB, dir, pattern string) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		tb.Fatal(err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

// only returns the path of the one file that matches.
func only(tb testing.TB, dir, pattern string) string {
	tb.Helper()
	names := glob(tb, dir, pattern)
	if len(names) != 1 {
		tb.Fatalf("%d files are called %s: %q, want one", len(names), pattern, names)
	}
	return filepath.Join(dir, names[0])
}

func readFile(tb testing.TB, path string) []byte {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func writeFile(tb testing.TB, path string, b []byte) {
	tb.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		tb.Fatal(err)
	}
}

func TestE06JournalGivesBackWhatWasAppended(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	j, got := open(t, dir)
	wantRecords(t, got)
	long := strings.Repeat("long", 1<<20)
	appendAll(t, j, "a", "", "bfj", long)
	j.Append([]byte("not committed, but the journal is closed"))
	closed(t, j)

	j, got = open(t, dir)
	wantRecords(t, got, "a", "", "bfj", long, "not committed, but the journal is closed")
	checkpoint(t, j, "state", long, long)
	appendAll(t, j, "b")
	closed(t, j)
	if names := glob(t, dir, "*.v1*"); len(names) != 2 {
		t.Errorf("after a checkpoint there are %q, want it and one segment", names)
	}

	j, got = open(t, dir)
	wantRecords(t, got, "state", long, long, "b")
	checkpoint(t, j)
	closed(t, j)
	_, got = open(t, dir)
	wantRecords(t, got)
}

func TestE06JournalLargestRecord(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	largest := strings.Repeat("x", journal.MaxRecord)
	appendAll(t, j, "a", largest, "b")
	func() {
		defer func() {
			if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "67108865 bytes") {
				t.Errorf("a longer record panics with %v", r)
			}
		}()
		j.Append(make([]byte, journal.MaxRecord+1))
	}()
	closed(t, j)
	_, got := open(t, dir)
	if len(got) != 3 || got[1] != largest || got[2] != "b" {
		t.Errorf("%d records came back, want 3 and the largest whole", len(got))
	}
}

func TestE06JournalTornAtEveryOffset(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	appendAll(t, j, "first", "second", strings.Repeat("bfjr", 10))
	closed(t, j)
	segment := only(t, dir, "segment.*.v1")
	whole := readFile(t, segment)
	begin := 2*journal.HeaderSize + len("first"+"second")
	for end := begin; end < len(whole); end++ {
		for name, tail := range map[string][]byte{"": nil, " and zeros follow": make([]byte, 5000)} {
			writeFile(t, segment, append(whole[:end:end], tail...))
			torn := readFile(t, segment)[begin:]
			j, got, log := openLogged(t, dir, retrying)
			wantRecords(t, got, "first", "second")
			switch {
			case len(torn) == 0:
				if log != "" {
					t.Errorf("cut at %d%s: logged %s", end, name, log)
				}
			case strings.Count(log, "\n") != 1 || !strings.Contains(log, fmt.Sprintf("file=%s offset=%d bytes=%d", filepath.Base(segment), begin, len(torn))):
				t.Errorf("cut at %d%s: logged %s", end, name, log)
			default:
				kept := only(t, dir, "*.torn")
				if !bytes.Equal(readFile(t, kept), torn) {
					t.Errorf("cut at %d%s: other bytes were kept", end, name)
				}
				if err := os.Remove(kept); err != nil {
					t.Fatal(err)
				}
			}
			appendAll(t, j, "third")
			closed(t, j)
			j, got = open(t, dir)
			wantRecords(t, got, "first", "second", "third")
			closed(t, j)
			if t.Failed() {
				return
			}
		}
	}
}

func TestE06JournalKeepsFewTornEnds(t *testing.T) {
	dir := t.TempDir()
	for range 20 {
		j, _, _ := openLogged(t, dir, retrying)
		appendAll(t, j, "record")
		closed(t, j)
		segment := only(t, dir, "segment.*.v1")
		writeFile(t, segment, append(readFile(t, segment), "torn"...))
	}
	if n := len(glob(t, dir, "*.torn")); n != 8 {
		t.Errorf("%d torn ends are kept, want 8", n)
	}
}

func TestE06JournalRecordsInsideDamagedRecordsStayInside(t *testing.T) {
	// A message may carry a whole journal, this one's or another's.
	dir := t.TempDir()
	j, _ := open(t, dir)
	appendAll(t, j, "a")
	closed(t, j)
	inner := readFile(t, only(t, dir, "segment.*.v1"))
	j, _ = open(t, dir)
	checkpoint(t, j, "a")
	appendAll(t, j, string(inner), "b")
	closed(t, j)
	segment := only(t, dir, "segment.*.v1")
	b := readFile(t, segment)
	b[4] ^= 1 // the length of the outer record
	writeFile(t, segment, b)
	_, got, log := openLogged(t, dir, retrying)
	wantRecords(t, got, "a", "b")
	if want := fmt.Sprintf("offset=0 bytes=%d", journal.HeaderSize+len(inner)); strings.Count(log, "\n") != 1 || !strings.Contains(log, want) {
		t.Errorf("logged %s, want one line with %s", log, want)
	}
}

func TestE06JournalSkipsRecordsThatCannotBeApplied(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	for i := range 200 {
		j.Append(fmt.Appendf(nil, "record %d", i))
	}
	closed(t, j)
	var out bytes.Buffer
	applied := 0
	j, err := journal.Open(dir, journal.Options{Log: slog.New(slog.NewTextHandler(&out, nil))}, func(record []byte) error {
		if applied++; applied%4 != 0 {
			return fmt.Errorf("cannot apply %q", record)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, j)
	if applied != 200 {
		t.Errorf("%d records were tried, want 200", applied)
	}
	log := out.String()
	if n := strings.Count(log, "cannot apply"); n != 100 || !strings.Contains(log, "times=50") || !strings.Contains(log, `cannot apply \"record 0\"`) {
		t.Errorf("%d records were logged, want 100 and that there are 50 more:\n%s", n, log)
	}
}

func TestE06JournalOfAnotherVersionIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/segment.0000000001.00000000.v2", []byte("x"))
	_, err := journal.Open(dir, retrying, nil)
	if err == nil || !strings.Contains(err.Error(), "segment.0000000001.00000000.v2 was written by another version") {
		t.Errorf("Open = %v", err)
	}
	if b := readFile(t, dir+"/segment.0000000001.00000000.v2"); string(b) != "x" {
		t.Errorf("it holds %q now", b)
	}
}

func TestE06JournalOpensTwiceOnlyAfterClose(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	want := fmt.Sprintf("open journal %s: process %d is using it", dir, os.Getpid())
	if _, err := journal.Open(dir, retrying, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open = %v, want %s", err, want)
	}
	closed(t, j)
	j, _ = open(t, dir)
	closed(t, j)
}

func TestE06JournalClosedJournalSaysSo(t *testing.T) {
	j, _ := open(t, t.TempDir())
	before := j.Append([]byte("a"))
	c := begin(t, j)
	closed(t, j)
	if err := j.Commit(t.Context(), before, true); err != nil {
		t.Errorf("Commit of what Close has synced = %v", err)
	}
	_, checkpointErr := j.Checkpoint()
	for what, err := range map[string]error{
		"Close":      j.Close(),
		"Err":        j.Err(),
		"Commit":     j.Commit(t.Context(), j.Append([]byte("b")), false),
		"Checkpoint": checkpointErr,
		"Done":       c.Done(),
	} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after Close = %v, want fs.ErrClosed", what, err)
		}
	}
}

func TestE06JournalConcurrentAppendersKeepTheirOrder(t *testing.T) {
	dir := t.TempDir()
	j, _ := openWith(t, dir, journal.Options{CheckpointAfter: 1 << 10})
	// The state is all records, and changes under mu, as the emulator's does.
	var mu sync.Mutex
	var state []string
	var appending, checkpoints sync.WaitGroup
	var made atomic.Int32
	stop := make(chan struct{})
	checkpoints.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-j.WantsCheckpoint():
			}
			mu.Lock()
			c, err := j.Checkpoint()
			all := slices.Clone(state)
			mu.Unlock()
			for _, r := range all {
				err = errors.Join(err, c.Add([]byte(r)))
			}
			if err = errors.Join(err, c.Done()); err != nil {
				t.Errorf("checkpoint: %v", err)
				return
			}
			made.Add(1)
		}
	})
	for i := range 8 {
		appending.Go(func() {
			for n := range 200 {
				record := fmt.Sprintf("%d %d", i, n)
				mu.Lock()
				state = append(state, record)
				ticket := j.Append([]byte(record))
				mu.Unlock()
				if err := j.Commit(t.Context(), ticket, n%2 == 0); err != nil {
					t.Errorf("commit: %v", err)
					return
				}
			}
		})
	}
	appending.Wait()
	// The checkpoints may have had no turn yet.
	for began := time.Now(); made.Load() < 2 && !t.Failed() && time.Since(began) < time.Minute; {
		mu.Lock()
		state = append(state, "one more")
		ticket := j.Append([]byte("one more"))
		mu.Unlock()
		if err := j.Commit(t.Context(), ticket, true); err != nil {
			t.Errorf("commit: %v", err)
		}
	}
	close(stop)
	checkpoints.Wait()
	closed(t, j)
	_, got := open(t, dir)
	wantRecords(t, got, state...)
	if n := made.Load(); n < 2 {
		t.Errorf("%d checkpoints were made, want several or the test shows nothing", n)
	}
}

func TestE06JournalCommitEndsWithItsContext(t *testing.T) {
	j, _ := open(t, t.TempDir())
	hold := make(chan struct{})
	j.SetDisk(journal.FailingDisk{OnSync: func() error { <-hold; return nil }})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller gave up")
	time.AfterFunc(time.Millisecond, func() { cancel(cause) })
	ticket := j.Append([]byte("a"))
	if err := j.Commit(ctx, ticket, true); !errors.Is(err, cause) {
		t.Errorf("Commit = %v, want the cause", err)
	}
	if err := j.Commit(t.Context(), ticket, false); err != nil {
		t.Errorf("Commit without sync during a sync = %v", err)
	}
	close(hold)
	if err := j.Commit(t.Context(), ticket, true); err != nil {
		t.Errorf("Commit = %v", err)
	}
	closed(t, j)
}
