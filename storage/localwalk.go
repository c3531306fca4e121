package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// walkBatch is how many entries of a directory are read at once. A directory of a
// million results is not held in memory.
const walkBatch = 256

// Walk implements [Store]. Links are not followed: a link to a directory could make a
// cycle, and what is below it has a name of its own.
func (l *Local) Walk(ctx context.Context, prefix string, visit Visit) error {
	if err := ValidPrefix(prefix); err != nil {
		return err
	}
	root, err := l.current()
	if err != nil {
		return fmt.Errorf("walk object %s: %w", prefix, err)
	}
	w := &walk{ctx: ctx, visit: visit, fail: l.fail}
	err = w.below(root, prefix)
	switch {
	case w.own != nil:
		return w.own
	case err != nil || w.missed:
		if err == nil {
			err = fs.ErrNotExist
		}
		if err = l.fail("walk", prefix, err); errors.Is(err, fs.ErrNotExist) {
			return nil // as far as it was there, it was shown
		}
		return err
	}
	return nil
}

// walk is one call of Walk.
type walk struct {
	ctx    context.Context // lives for one Walk
	visit  Visit
	fail   func(verb, name string, err error) error
	own    error // the caller's: of visit, or the cause of ctx
	missed bool  // something has disappeared, perhaps the whole store
}

// below opens the directory that prefix names, one part after the other, so that
// none of them is a link.
func (w *walk) below(root *os.Root, prefix string) error {
	dir, above := root, ""
	for part := range strings.SplitSeq(strings.TrimSuffix(prefix, "/"), "/") {
		if part == "" {
			break // the whole store
		}
		sub, err := openDir(dir, part)
		if err != nil || sub == nil {
			w.missed = w.missed || errors.Is(err, fs.ErrNotExist)
			return err
		}
		defer sub.Close() // as many as a name has parts
		dir, above = sub, above+part+"/"
	}
	return w.dir(dir, above)
}

// openDir returns the directory of that name, or nil if it is something else.
func openDir(in *os.Root, name string) (*os.Root, error) {
	info, err := in.Lstat(name)
	if err != nil || !info.IsDir() {
		return nil, err
	}
	return in.OpenRoot(name)
}

// dir shows what is in a directory; names begins the names of its objects.
func (w *walk) dir(root *os.Root, names string) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(walkBatch)
		for _, e := range entries {
			if err := w.entry(root, e, names+e.Name()); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (w *walk) entry(root *os.Root, e fs.DirEntry, name string) error {
	if w.ctx.Err() != nil {
		w.own = context.Cause(w.ctx)
		return w.own
	}
	if nameProblem(name) != "" || !e.IsDir() && !e.Type().IsRegular() {
		return nil
	}
	if e.IsDir() {
		sub, err := openDir(root, e.Name())
		if err == nil && sub != nil {
			err = w.dir(sub, name+"/")
			_ = sub.Close() // nothing was written through it
		}
		return w.past(name+"/", err)
	}
	// Not e.Info, which asks for the path and so may leave the directory.
	info, err := root.Lstat(e.Name())
	if err != nil || !info.Mode().IsRegular() {
		return w.past(name, err)
	}
	w.own = w.visit(name, Info{Size: info.Size(), Modified: info.ModTime()}, nil)
	return w.own
}

// past returns nil, so that the walk goes on, if err means that something has
// disappeared or may not be read. Otherwise it returns err.
func (w *walk) past(name string, err error) error {
	switch {
	case w.own != nil:
	case errors.Is(err, fs.ErrNotExist):
		w.missed = true
		return nil
	case errors.Is(err, fs.ErrPermission):
		w.own = w.visit(name, Info{}, w.fail("walk", name, err))
		return w.own
	}
	return err
}
