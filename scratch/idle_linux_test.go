package scratch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

func checkpointOf(t *testing.T, r *Root, id string) *Checkpoint {
	t.Helper()
	c, err := r.Checkpoint(jobs.ID(id))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestK11EmptyCheckpointIsUsedAgainOnlyIfItIsAsItWasMade(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(c *Checkpoint) error
		again bool
	}{
		{"untouched", func(*Checkpoint) error { return nil }, true},
		{"emptied", func(c *Checkpoint) error {
			name := filepath.Join(c.Dir, "step")
			return errors.Join(os.WriteFile(name, nil, 0o600), os.Remove(name))
		}, true},
		{"a file in it", func(c *Checkpoint) error { return os.WriteFile(filepath.Join(c.Dir, "step"), nil, 0o600) }, false},
		{"a file beside it", func(c *Checkpoint) error { return os.WriteFile(filepath.Join(c.path, "x"), nil, 0o600) }, false},
		{"another mode", func(c *Checkpoint) error { return os.Chmod(c.Dir, 0o500) }, false},
		{"one that was made by the program", func(c *Checkpoint) error {
			aside := c.Dir + "x"
			return errors.Join(os.Rename(c.Dir, aside), os.Mkdir(c.Dir, 0o700), os.Remove(aside))
		}, false},
		{"a link", func(c *Checkpoint) error { return errors.Join(os.Remove(c.Dir), os.Symlink(".", c.Dir)) }, false},
		{"another lock", func(c *Checkpoint) error {
			lock := filepath.Join(c.path, lockName)
			return errors.Join(os.Rename(lock, lock+"x"), os.WriteFile(lock, nil, 0o600), os.Remove(lock+"x"))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			r, other := open(t, dir), open(t, dir)
			first := checkpointOf(t, r, "job-1")
			path := first.path
			if err := errors.Join(tt.spoil(first), first.Delete()); err != nil {
				t.Fatal(err)
			}
			first.Close() // does nothing more
			wantGone(t, path)
			if again := len(r.idleCheckpoints.all) == 1; again != tt.again {
				t.Errorf("used again: %v, want %v", again, tt.again)
			}
			second := checkpointOf(t, r, "job-2")
			if entries, err := os.ReadDir(second.Dir); err != nil || len(entries) > 0 {
				t.Errorf("the next job finds %v, %v", entries, err)
			}
			if _, err := other.Checkpoint("job-2"); !errors.Is(err, ErrInUse) {
				t.Errorf("another worker: %v, want %v", err, ErrInUse)
			}
			checkpointOf(t, other, "job-1").Close()
			second.Close()
			checkpointOf(t, other, "job-2").Close()
		})
	}
}

func TestK11IdleCheckpointNeverReplacesAnother(t *testing.T) {
	r := open(t, t.TempDir())
	kept := checkpointOf(t, r, "job-1")
	if err := os.WriteFile(filepath.Join(kept.Dir, "step"), []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept.Close()
	if err := checkpointOf(t, r, "job-2").Delete(); err != nil {
		t.Fatal(err)
	}
	again := checkpointOf(t, r, "job-1")
	defer again.Close()
	if text, err := os.ReadFile(filepath.Join(again.Dir, "step")); err != nil || string(text) != "7" {
		t.Errorf("the next attempt finds %q, %v", text, err)
	}
	if len(r.idleCheckpoints.all) != 1 {
		t.Errorf("%d are idle, want the one", len(r.idleCheckpoints.all))
	}
}

func TestK11IdleCheckpointThatIsWrittenToIsNotUsed(t *testing.T) {
	r := open(t, t.TempDir())
	for range 2 { // the second one is known not to have changed for some time
		c := checkpointOf(t, r, "job-1")
		aged(t, c.Dir)
		if err := c.Delete(); err != nil {
			t.Fatal(err)
		}
	}
	// A process that was not found.
	if err := os.WriteFile(filepath.Join(r.idleCheckpoints.all[0].Dir, "late"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := checkpointOf(t, r, "job-2")
	defer c.Close()
	if entries, err := os.ReadDir(c.Dir); err != nil || len(entries) > 0 {
		t.Errorf("the next job finds %v, %v", entries, err)
	}
}

// What the last attempt at a job has found, and left as it was, is for no other job.
func TestK11CheckpointOfAnEarlierAttemptIsNotUsedAgain(t *testing.T) {
	r := open(t, t.TempDir())
	c := checkpointOf(t, r, "job-1")
	if err := os.WriteFile(filepath.Join(c.Dir, "step"), []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	aged(t, c.Dir)
	c.Close()
	if err := r.DeleteCheckpoint("job-1"); err != nil {
		t.Fatal(err)
	}
	if n := len(r.idleCheckpoints.all); n > 0 {
		t.Errorf("%d are idle", n)
	}
	other := checkpointOf(t, r, "job-2")
	defer other.Close()
	if entries, err := os.ReadDir(other.Dir); err != nil || len(entries) > 0 {
		t.Errorf("another job finds %v, %v", entries, err)
	}
}

// aged waits until a change of a directory is so old that a later one has another time.
func aged(t *testing.T, dir string) {
	t.Helper()
	for {
		now, _, ok := Inspect(dir)
		if !ok {
			t.Fatalf("%s is not as it was made", dir)
		}
		if now.changed != 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestK12DirectoryThatHasChangedIsSeenToHave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	for _, tt := range []struct {
		name   string
		change func() error
		want   bool
	}{
		{"nothing", func() error { return nil }, true},
		{"a file", func() error { return os.WriteFile(filepath.Join(dir, "f"), nil, 0o600) }, false},
		{"a file with the old times", func() error {
			info, err := os.Lstat(dir)
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Chtimes(dir, info.ModTime(), info.ModTime()))
		}, false},
		{"a file that is gone again", func() error {
			name := filepath.Join(dir, "f")
			return errors.Join(os.WriteFile(name, nil, 0o600), os.Remove(name))
		}, true},
		{"another mode", func() error { return os.Chmod(dir, 0o755) }, false},
		{"another directory", func() error { return errors.Join(os.Rename(dir, dir+"x"), os.Mkdir(dir, 0o700)) }, false},
	} {
		for _, old := range []bool{false, true} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if old {
				aged(t, dir)
			}
			state, _, _ := Inspect(dir)
			if err := tt.change(); err != nil {
				t.Fatal(err)
			}
			if got := state.IsEmpty(dir); got != tt.want {
				t.Errorf("%s (old: %v): IsEmpty = %v, want %v", tt.name, old, got, tt.want)
			}
			if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+"x")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestK12ParamsDoNotStayOnTheDisk(t *testing.T) {
	r := open(t, t.TempDir())
	for n, text := range []string{`{"secret":"long text"}`, `{}`} {
		d := attempt(t, r, n)
		if err := d.WriteParams([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(d.Params); err != nil || string(got) != text {
			t.Errorf("the program reads %q, %v; want %q", got, err, text)
		}
		d.Remove()
		kept, err := os.ReadFile(r.idleDirs.all[0].spare)
		if err != nil || bytes.ContainsAny(kept, "secret") {
			t.Errorf("afterwards there is %q, %v", kept, err)
		}
	}
}
