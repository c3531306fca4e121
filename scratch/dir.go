package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

// Dir has the directories of one attempt. They are empty when it is made, and only their owner may
// use them. Its methods may be called concurrently, but for Remove.
type Dir struct {
	Work   string // where the program runs
	Input  string // for what the job is given
	Output string // for what the program makes
	Params string // the file that WriteParams writes

	path string // what holds all of it
	root *Root
	made [3]DirState // the directories, in the order of dirs
	// spare is a file that WriteParams uses again; empty for none.
	spare string
}

// Attempt makes the directories of an attempt. If those of an attempt with the same number are
// there still, it has others.
func (r *Root) Attempt(id jobs.ID, n int) (*Dir, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if r.Place != nil {
		return r.placed(r.Place(id), n)
	}
	name := string(id) + "-" + strconv.Itoa(n)
	if d := r.takeIdle(name); d != nil {
		return d, nil
	}
	d, err := r.makeDir(r.own, name)
	if errors.Is(err, fs.ErrNotExist) {
		r.keepOwn()
		d, err = r.makeDir(r.own, name)
	}
	if err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	return d, nil
}

// placed makes the directories of an attempt in the place of its job, where an earlier one may have put a link.
func (r *Root) placed(place string, n int) (*Dir, error) {
	info, err := os.Lstat(place)
	if err == nil {
		if bad := safefile.CheckDir(place, info); bad != nil {
			err = fmt.Errorf("%s: %w", place, bad)
		}
	}
	var d *Dir
	if err == nil {
		d, err = r.makeDir(place, strconv.Itoa(n))
	}
	if err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	return d, nil
}

func (r *Root) makeDir(in, name string) (*Dir, error) {
	d := &Dir{root: r}
	d.at(filepath.Join(in, name))
	err := os.Mkdir(d.path, 0o700)
	for i := 2; errors.Is(err, fs.ErrExist); i++ {
		d.at(filepath.Join(in, fmt.Sprintf("%s.%d", name, i)))
		err = os.Mkdir(d.path, 0o700)
	}
	if err != nil {
		return nil, err
	}
	for i, dir := range d.dirs() {
		err = errors.Join(err, os.Mkdir(dir, 0o700))
		d.made[i], _, _ = Inspect(dir)
	}
	if err != nil {
		r.discard(d.path)
		return nil, err
	}
	return d, nil
}

// at sets the paths.
func (d *Dir) at(path string) {
	in := func(name string) string { return filepath.Join(path, name) }
	d.path, d.Work, d.Input, d.Output, d.Params = path, in("work"), in("input"), in("output"), in("params")
}

func (d *Dir) dirs() [3]string { return [...]string{d.Work, d.Input, d.Output} }

// Usage returns what the attempt and the directories beside have on the disk together. See [Measure].
func (d *Dir) Usage(beside ...string) (Usage, error) { return Measure(append(beside, d.path)...) }

// Remove deletes the directories with all that is in them, whatever their modes. What cannot be deleted is
// moved out of the way, logged, and deleted by a later sweep. Nothing should run in them any more.
func (d *Dir) Remove() {
	if d.root.Place != nil || !d.root.keepIdle(d) {
		d.discard()
	}
}

// keepIdle keeps what another attempt may have because the program has left nothing in it.
func (r *Root) keepIdle(d *Dir) bool {
	path := r.idlePath()
	if r.idleDirs.full() || !d.moveParams(path+".params") || !d.asMade() || !d.isAlone() || rename(d.path, path) != nil {
		return false
	}
	kept := *d // others may use d still
	kept.at(path)
	r.idleDirs.add(&kept)
	return true
}

// takeIdle returns directories that an earlier attempt has left empty, nil if there are none.
func (r *Root) takeIdle(name string) *Dir {
	d, ok := r.idleDirs.take()
	if !ok {
		return nil
	}
	path := filepath.Join(r.own, name)
	// A process that was not found may have written to them since. A rename replaces empty directories,
	// which those of attempts are not.
	if !d.asMade() || rename(d.path, path) != nil {
		d.discard()
		return nil
	}
	d.at(path)
	return d
}

func (d *Dir) discard() {
	if d.spare != "" {
		d.root.discard(d.spare)
	}
	d.root.discard(d.path)
}

// WriteParams makes the file Params.
func (d *Dir) WriteParams(text []byte) error {
	if d.spare == "" {
		return os.WriteFile(d.Params, text, 0o600)
	}
	// It was cut to one byte, not to nothing: after that ext4 writes it to the disk when it is closed.
	f, err := os.OpenFile(d.spare, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Truncate(int64(len(text))), f.Close(), rename(d.spare, d.Params))
	d.spare = ""
	return err
}

// moveParams moves the file of the parameters out of the directories, for WriteParams of another attempt. It reports
// whether there is nothing of it left.
func (d *Dir) moveParams(to string) bool {
	info, err := os.Lstat(d.Params)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if d.spare != "" { // it was not written by WriteParams
		return os.Remove(d.Params) == nil
	}
	if err != nil || info.Mode() != 0o600 || links(info) != 1 || os.Truncate(d.Params, 1) != nil || rename(d.Params, to) != nil {
		return false
	}
	d.spare = to
	return true
}

// asMade reports whether the directories are as they were made: the same ones, empty, with their modes and
// without further attributes.
func (d *Dir) asMade() bool {
	for i, dir := range d.dirs() {
		if !d.made[i].IsEmpty(dir) {
			return false
		}
	}
	return true
}

// isAlone reports whether nothing else is beside the directories.
func (d *Dir) isAlone() bool {
	_, names, ok := Inspect(d.path)
	return ok && names == len(d.made)
}
