package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/batchfleet/batchfleet/jobs"
)

// Dir has the directories of one attempt. They are empty when it is made, and only their owner may
// use them. Its methods may be called concurrently.
type Dir struct {
	Work   string // where the program runs
	Input  string // for what the job is given
	Output string // for what the program makes
	Params string // for the parameters: no file is there yet

	path string // what holds all of it
	root *Root
}

// Attempt makes the directories of an attempt. If those of an attempt with the same number are
// there still, it has others.
func (r *Root) Attempt(id jobs.ID, n int) (*Dir, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	path := filepath.Join(r.own, string(id)+"-"+strconv.Itoa(n))
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		r.keepOwn()
		err = os.Mkdir(path, 0o700)
	}
	for i := 2; errors.Is(err, fs.ErrExist); i++ {
		path = filepath.Join(r.own, fmt.Sprintf("%s-%d.%d", id, n, i))
		err = os.Mkdir(path, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	at := func(name string) string { return filepath.Join(path, name) }
	d := &Dir{Work: at("work"), Input: at("input"), Output: at("output"), Params: at("params"), path: path, root: r}
	for _, dir := range d.dirs() {
		if err := os.Mkdir(dir, 0o700); err != nil {
			d.Remove()
			return nil, fmt.Errorf("make scratch directory: %w", err)
		}
	}
	return d, nil
}

func (d *Dir) dirs() []string { return []string{d.Work, d.Input, d.Output} }

// Usage returns what the attempt has on the disk. See [Measure].
func (d *Dir) Usage() (Usage, error) { return Measure(d.path) }

// Remove deletes the directories with all that is in them, whatever their modes. What cannot be deleted is
// moved out of the way, logged, and deleted by a later sweep. Nothing should run in them any more.
func (d *Dir) Remove() {
	if !d.removeEmpty() {
		d.root.discard(d.path)
	}
}

// removeEmpty deletes the directories if the program has left nothing in them, which is much quicker
// than to look.
func (d *Dir) removeEmpty() bool {
	if err := os.Remove(d.Params); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	for _, dir := range d.dirs() {
		if os.Remove(dir) != nil {
			return false
		}
	}
	return os.Remove(d.path) == nil
}
