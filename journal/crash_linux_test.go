package journal_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/journal"
)

// childEnv makes the test binary run as one of children instead of the tests.
const childEnv = "JOURNAL_TEST_CHILD"

// No test of this package runs in parallel to others: a process that is being started
// holds, for a moment, the locks of the journals that are open in this one.
func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](os.Args[1], os.Args[2]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// children do to the journal in dir what a test cannot do to its own process.
var children = map[string]func(dir, arg string) error{
	"count":          func(dir, _ string) error { return count(dir) },
	"checkpoint":     crashInCheckpoint,
	"fill a disk":    fillDisk,
	"fill to limit":  fillToLimit,
	"open when full": openWhenFull,
	"hold the files": holdFiles,
}

func child(t *testing.T, name, dir, arg string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path, dir, arg)
	c.Env = append(os.Environ(), childEnv+"="+name)
	return c
}

// A counter's state is how far it has counted. Its records are "+N", the next
// number, and "=N", the whole state.
type counter struct{ n int }

func (c *counter) apply(record []byte) error {
	n, err := strconv.Atoi(string(record[1:]))
	if err == nil && record[0] == '+' && n != c.n+1 {
		err = fmt.Errorf("%d follows %d", n, c.n)
	}
	c.n = n
	return err
}

// openCounter fails if anything was wrong with the journal, but for a torn end.
func openCounter(dir string) (*journal.Journal, *counter, error) {
	var log strings.Builder
	var c counter
	var wrong error
	j, err := journal.Open(dir, journal.Options{
		Log:             slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		CheckpointAfter: 20_000,
	}, func(record []byte) error {
		err := c.apply(record)
		wrong = errors.Join(wrong, err)
		return err
	})
	if err == nil && strings.Count(log.String(), "\n") != strings.Count(log.String(), "is cut off") {
		wrong = errors.Join(wrong, errors.New(log.String()))
	}
	return j, &c, errors.Join(err, wrong)
}

// count counts until it is killed and prints what is committed.
func count(dir string) error {
	j, c, err := openCounter(dir)
	if err != nil {
		return err
	}
	for {
		select {
		case <-j.WantsCheckpoint():
			p, err := j.Checkpoint()
			if err != nil {
				return err
			}
			state := c.n
			go func() {
				_ = p.Add(fmt.Appendf(nil, "=%d", state))
				if err := p.Done(); err != nil {
					fmt.Println("error:", err)
				}
			}()
		default:
		}
		c.n++
		t := j.Append(fmt.Appendf(nil, "+%d", c.n))
		// Some with sync, some without, some not at all.
		if c.n%3 > 0 {
			if err := j.Commit(context.Background(), t, c.n%3 == 1); err != nil {
				return err
			}
			fmt.Println(c.n)
		}
	}
}

func TestE06JournalKilledAnywhereKeepsWhatWasCommitted(t *testing.T) {
	testrun.Long(t, "it starts processes")
	dir := t.TempDir()
	last, seed := 0, rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 30 {
		c := child(t, "count", dir, "")
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		line := func() bool {
			if !lines.Scan() {
				return false
			}
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatalf("round %d, seed %d: the child says %s", round, seed, lines.Text())
			}
			last = max(last, n)
			return true
		}
		for range 1 + rnd.IntN(1000) {
			if !line() {
				t.Fatalf("round %d, seed %d: the child has ended", round, seed)
			}
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for line() { // what it said before it died counts too
		}
		_ = c.Wait() // killed
		j, got, err := openCounter(dir)
		if err != nil {
			t.Fatalf("round %d, seed %d: %v", round, seed, err)
		}
		if got.n < last {
			t.Fatalf("round %d, seed %d: %d is there, %d was committed", round, seed, got.n, last)
		}
		last = got.n
		closed(t, j)
	}
	if n := len(glob(t, dir, "checkpoint.*")); n != 1 {
		t.Errorf("%d checkpoints at the end, want 1, or the test has shown little", n)
	}
}

// crashInCheckpoint is killed after so many steps of a checkpoint. A step that is
// too many is all of it.
func crashInCheckpoint(dir, arg string) error {
	steps, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	j, c, err := openCounter(dir)
	if err != nil {
		return err
	}
	next := func() error {
		c.n++
		return j.Commit(context.Background(), j.Append(fmt.Appendf(nil, "+%d", c.n)), true)
	}
	if err := next(); err != nil {
		return err
	}
	p, err := j.Checkpoint()
	if err != nil {
		return err
	}
	state := c.n
	if err := next(); err != nil {
		return err
	}
	// More than is written at once.
	for range 200_000 {
		if err := p.Add(fmt.Appendf(nil, "=%d", state)); err != nil {
			return err
		}
	}
	all := p.Steps()
	if steps > len(all) {
		err = p.Done()
	} else {
		for _, step := range all[:steps] {
			err = errors.Join(err, step())
		}
	}
	if err := errors.Join(err, next()); err != nil {
		return err
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

func TestE06JournalKilledInACheckpoint(t *testing.T) {
	testrun.Long(t, "it starts processes")
	testrun.Once(t, "what is on disk tells it, and other tests look for races in a journal")
	dir := t.TempDir()
	for n := range 20 { // the steps, and over again on what that leaves
		steps := n % 8
		out, err := child(t, "checkpoint", dir, strconv.Itoa(steps)).CombinedOutput()
		if state := new(exec.ExitError); !errors.As(err, &state) || state.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			t.Fatalf("after %d steps: %v, %s", steps, err, out)
		}
		if steps < 5 != (len(glob(t, dir, "*.tmp")) == 1) {
			t.Errorf("after %d steps there are %q", steps, glob(t, dir, "*"))
		}
		j, c, err := openCounter(dir)
		if err != nil || c.n != 3*(n+1) {
			t.Fatalf("after %d steps: %d is there, want %d; %v", steps, c.n, 3*(n+1), err)
		}
		closed(t, j)
		if left := glob(t, dir, "*.tmp"); len(left) > 0 {
			t.Errorf("after %d steps: left behind: %q", steps, left)
		}
	}
}

// holdFiles has the journal open until it is killed.
func holdFiles(dir, _ string) error {
	_, _, err := openCounter(dir)
	fmt.Println("open")
	if err == nil {
		time.Sleep(time.Hour)
	}
	return err
}

func TestE06JournalBelongsToOneProcess(t *testing.T) {
	dir := t.TempDir()
	c := child(t, "hold the files", dir, "")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("open\n"))); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process %d is using it", c.Process.Pid)
	if _, err := journal.Open(dir, retrying, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open = %v, want %s", err, want)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	j, _ := open(t, dir)
	closed(t, j)
}

// fillDisk runs in a mount namespace of its own, where dir becomes a file system
// of 1 MiB.
func fillDisk(dir, _ string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		return fmt.Errorf("mount a small file system: %w", err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 512<<10), 0o600); err != nil {
		return err
	}
	return fill(dir, syscall.ENOSPC, func() error { return os.Remove(filler) })
}

// fillToLimit needs no rights: the kernel fails a write over this limit as it
// does on a full disk, after writing a part of it.
func fillToLimit(dir, _ string) error {
	limit := unix.Rlimit{Cur: 300_001, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return fill(dir, syscall.EFBIG, func() error {
		limit.Cur = limit.Max
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
	})
}

// fill counts until the disk is full, on while it is, then makes space and
// expects everything to be there. Each number is followed by 10 kB.
func fill(dir string, want error, makeSpace func() error) error {
	j, err := journal.Open(dir, retrying, nil)
	if err != nil {
		return err
	}
	n := 0
	count := func(sync bool) error {
		n++
		return j.Commit(context.Background(), j.Append(fmt.Appendf(nil, "%d %10000d", n, 0)), sync)
	}
	for err == nil {
		err = count(n%2 == 0)
	}
	full := n
	if !errors.Is(err, want) || !errors.Is(j.Err(), want) || full < 20 {
		return fmt.Errorf("after %d records Commit = %w, Err = %w", n, err, j.Err())
	}
	for range 5 {
		if err := count(true); !errors.Is(err, want) {
			return fmt.Errorf("on the full disk, Commit = %w", err)
		}
		time.Sleep(300 * time.Millisecond) // over an attempt
	}
	if err := makeSpace(); err != nil {
		return err
	}
	for start := time.Now(); j.Err() != nil; time.Sleep(time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			return fmt.Errorf("20 s after there is space, Err = %w", j.Err())
		}
	}
	if err := errors.Join(count(true), j.Close()); err != nil {
		return err
	}
	got := 0
	j, err = journal.Open(dir, journal.Options{Log: slog.New(slog.NewTextHandler(os.Stdout, nil))}, func(record []byte) error {
		got++
		if s, _, _ := strings.Cut(string(record), " "); s != strconv.Itoa(got) {
			fmt.Printf("wrong: record %d is %s\n", got, s)
		}
		return nil
	})
	fmt.Printf("full=%v records=%v\n", full < n, got == n)
	return errors.Join(err, j.Close())
}

func TestE06JournalFullDisk(t *testing.T) {
	testrun.Long(t, "it starts processes")
	t.Run("a file system of 1 MiB", func(t *testing.T) {
		c := child(t, "fill a disk", t.TempDir(), "")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Getuid() != 0 {
			c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		out, err := c.CombinedOutput()
		if os.Getenv("CI") == "" && (errors.Is(err, unix.EPERM) || strings.Contains(string(out), "mount")) {
			t.Skipf("this system does not allow mounting a file system: %v %s", err, out)
		}
		wantFilled(t, string(out), err)
	})
	t.Run("a limit", func(t *testing.T) {
		out, err := child(t, "fill to limit", t.TempDir(), "").CombinedOutput()
		wantFilled(t, string(out), err)
	})
}

func wantFilled(t *testing.T, out string, err error) {
	t.Helper()
	if err != nil || !strings.Contains(out, "full=true records=true") || strings.Contains(out, "wrong") || strings.Contains(out, "level=WARN") {
		t.Errorf("%v, %s", err, out)
	}
}

// openWhenFull opens the journal when no file can grow, appends when they can
// again, and says what is logged.
func openWhenFull(dir, _ string) error {
	limit := unix.Rlimit{Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	var log strings.Builder
	j, err := journal.Open(dir, journal.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, func([]byte) error { return nil })
	limit.Cur = limit.Max
	if err := errors.Join(err, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)); err != nil {
		return err
	}
	fmt.Println(log.String())
	return errors.Join(j.Commit(context.Background(), j.Append([]byte("appended")), true), j.Close())
}

func TestE06JournalGoesOnBehindATornEndThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	appendAll(t, j, "a")
	closed(t, j)
	segment := only(t, dir, "segment.*.v1")
	torn := append(readFile(t, segment), "torn"...)
	writeFile(t, segment, torn)
	out, err := child(t, "open when full", dir, "").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "torn end of the journal is left as it is") {
		t.Errorf("%v, %s", err, out)
	}
	if got := readFile(t, segment); string(got) != string(torn) {
		t.Errorf("the segment holds %q now", got)
	}
	if left := glob(t, dir, "*.torn"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	_, got, _ := openLogged(t, dir, retrying)
	wantRecords(t, got, "a", "appended")
}

func TestE06JournalRemovesTheOldestFirst(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	checkpoint(t, j, "old")
	for _, r := range []string{"a", "b", "c"} {
		appendAll(t, j, r)
		begin(t, j).Abort()
	}
	want := append(glob(t, dir, "checkpoint.*"), glob(t, dir, "segment.*")...)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_DELETE|unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	checkpoint(t, j, "new")
	closed(t, j)
	want = append(glob(t, dir, "checkpoint.*"), want...)
	b := make([]byte, 1<<16)
	n, err := unix.Read(fd, b)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for b = b[:n]; len(b) > 0; { // inotify(7): 16 bytes, the last 4 of them the length of the name behind
		end := 16 + binary.NativeEndian.Uint32(b[12:])
		got = append(got, strings.TrimRight(string(b[16:end]), "\x00"))
		b = b[end:]
	}
	wantRecords(t, got, want...) // the first is the one that came
}
