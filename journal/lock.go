package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/flock"
	"github.com/batchfleet/batchfleet/safefile"
)

// checkDir returns an error if dir is no longer the directory that was locked.
// Files in the old one can still be written, but no Open will read them.
func (j *Journal) checkDir() error {
	ours, err := j.lock.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(filepath.Join(j.dir, lockName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(ours, there) {
		return fmt.Errorf("the directory %s was removed or replaced while it was in use: what is in memory ends with this process", j.dir)
	}
	return nil
}

const lockName = "LOCK"

// lockDir keeps other processes, and other journals of this one, out of dir
// until the file is closed. The kernel closes it when the process ends, also by
// kill -9.
func lockDir(dir string) (*os.File, error) {
	f, err := safefile.OpenOrMake(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	err = errors.ErrUnsupported
	if runtime.GOOS != "windows" { // on which the journal was never tried
		err = flock.Lock(f)
	}
	if err != nil {
		defer func() { _ = f.Close() }() // nothing was written
		if !errors.Is(err, flock.ErrLocked) {
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		// The process id may be half written.
		b, _ := io.ReadAll(io.LimitReader(f, 32))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			return nil, fmt.Errorf("process %d is using it: stop that, or use another directory", pid)
		}
		return nil, errors.New("another process is using it: stop that, or use another directory")
	}
	// For the message above. On a full disk the journal opens without it.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}
