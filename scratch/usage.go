package scratch

import "errors"

// Usage is what a tree of files has on the disk.
type Usage struct {
	Bytes    int64 // that are allocated; of a sparse file only what it holds
	Apparent int64 // the sizes of all regular files together, as they would be when copied
	Files    int   // files of all sorts and directories, without the top ones
}

// Measure returns what the given directories have on the disk together. It follows no links, and counts a file
// with several names once. Files that come and go meanwhile may or may not be counted; files that are open and
// have no name any more are not. An error says what could not be read; the rest is counted.
func Measure(dirs ...string) (Usage, error) {
	m := meter{linked: map[fileID]bool{}}
	var errs []error
	for _, dir := range dirs {
		if err := m.tree(dir); err != nil {
			errs = append(errs, err)
		}
	}
	return m.usage, errors.Join(errs...)
}

// fileID is the identity of a file on this machine.
type fileID struct{ dev, ino uint64 }

type meter struct {
	usage  Usage
	linked map[fileID]bool // files with several names that were counted
}
