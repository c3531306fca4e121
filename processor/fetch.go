package processor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

// input is a job's document on local disk.
type input struct {
	path   string
	bytes  int64
	sha256 string // in hex
}

// remove deletes the copy.
func (in input) remove() { _ = os.Remove(in.path) } // what is left is for the system to clear

// fetch copies the job's input to local disk: engines seek in it, and a reader
// in a child process can be given a file but not a store. It calls progressed at
// the start and then every few seconds as long as data comes.
func (p *Pages) fetch(ctx context.Context, job jobs.Job, progressed func()) (input, error) {
	progressed()
	src, err := p.Store.Open(ctx, job.Input)
	if errors.Is(err, fs.ErrNotExist) {
		return input{}, fmt.Errorf("open input: %w (do this worker and who submitted it use the same storage?)", err)
	}
	if err != nil {
		return input{}, fmt.Errorf("open input: %w", err) // which names it
	}
	defer src.Close()
	in, err := copyInput(ctx, p.Dir, src, p.MaxInputBytes, progressed)
	if over := tooLargeError(0); errors.As(err, &over) {
		return input{}, fmt.Errorf("input %s is %w", job.Input, over)
	}
	if err != nil {
		return input{}, fmt.Errorf("copy input %s: %w", job.Input, err)
	}
	return in, nil
}

// tooLargeError is the error of an input with more bytes than its value.
type tooLargeError int64

func (limit tooLargeError) Error() string {
	return fmt.Sprintf("larger than %d bytes (MAX_INPUT_BYTES)", int64(limit))
}

// CopyInput copies src to a file in dir, the system's place for temporary files if
// empty, for an engine to read; the caller calls remove. It fails if src has more
// than limit bytes, and soon after ctx ends unless a Read of src blocks.
func CopyInput(ctx context.Context, dir string, src io.Reader, limit int64) (path string, remove func(), err error) {
	in, err := copyInput(ctx, dir, src, limit, func() {})
	return in.path, in.remove, err
}

// copyInput calls progressed every few seconds as long as data comes.
func copyInput(ctx context.Context, dir string, src io.Reader, limit int64, progressed func()) (input, error) {
	dst, err := os.CreateTemp(dir, inputPattern)
	if err != nil {
		return input{}, localError(err)
	}
	in, complete := input{path: dst.Name()}, false
	defer func() {
		if !complete { // also after a panic
			_ = dst.Close()
			in.remove()
		}
	}()
	in.bytes, in.sha256, err = scratch.Fetch(ctx, dst, src, limit, progressed)
	if errors.Is(err, scratch.ErrTooLarge) {
		return input{}, tooLargeError(limit)
	}
	if err != nil {
		return input{}, err
	}
	complete = true
	return in, nil
}

// localError marks an error of the worker's own disk, which is not the job's fault.
func localError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
}

// sweepAge is how old a copy of an input must be to be taken for a leftover. Its
// reader has it open long before.
const sweepAge = time.Hour

// Sweep deletes the copies of inputs that killed workers have left in dir, the
// system's place for temporary files if empty, and returns how many.
func Sweep(dir string) (removed int, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	files, err := filepath.Glob(filepath.Join(dir, inputPattern+"*"))
	if err != nil {
		return 0, fmt.Errorf("look for leftovers: %w", err)
	}
	for _, name := range files {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < sweepAge {
			continue // deleted, not ours, or in use
		}
		if os.Remove(name) == nil {
			removed++
		}
	}
	return removed, nil
}

// inputPattern begins the names of the copies of inputs.
const inputPattern = "batchfleet-input-"
