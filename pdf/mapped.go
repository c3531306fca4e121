package pdf

import (
	"fmt"
	"os"
	"runtime/debug"
)

// OpenFile is [Open] for the file at path, which it maps into memory where the
// system can: memory then holds only what is being read, and the system takes
// it back when it runs short. [Document.Close] ends that. If the file is cut
// short meanwhile, pages fail.
func OpenFile(path string, opts Options) (*Document, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open document: %w", err)
	}
	if !stat.Mode().IsRegular() { // to open a pipe could take forever
		return nil, fmt.Errorf("open document: %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open document: %w", err)
	}
	defer f.Close()
	if stat, err = f.Stat(); err != nil {
		return nil, fmt.Errorf("open document: %w", err)
	}
	if stat.Size() == 0 {
		return nil, errEmpty
	}
	data, unmap, err := mapFile(f, stat.Size())
	if err != nil {
		return Open(f, stat.Size(), opts)
	}
	defer faultsPanic()()
	d, err := newDocument(data, opts)
	if err != nil {
		_ = unmap() // the memory is this function's own
		return nil, err
	}
	d.unmap = unmap
	return d, nil
}

// Close gives back what [OpenFile] took. The document must not be used any
// more; other goroutines must have ended their use of it.
func (d *Document) Close() error {
	if d.unmap == nil {
		return nil
	}
	unmap := d.unmap
	d.unmap = nil
	if err := unmap(); err != nil {
		return fmt.Errorf("close document: %w", err)
	}
	return nil
}

// faultsPanic makes reading beyond the end of a mapped file, which can only
// happen when the file has become shorter, a panic of this goroutine instead of
// the end of the process. It returns how to undo that.
func faultsPanic() (undo func()) {
	before := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(before) }
}
