package scratch

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

// maxTravelFiles is how many files a checkpoint may have that goes to another machine.
const maxTravelFiles = 10_000

// State describes the files that Pack packs, so that a change shows, and returns their size. It is empty without any.
func (c *Checkpoint) State() (state string, size int64, err error) {
	var b strings.Builder
	err = c.files(func(name string, info fs.FileInfo) error {
		size += info.Size()
		fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return b.String(), size, err
}

// Pack writes the files of the checkpoint as a tar archive. The program may write meanwhile: of a file that grows, what was there at
// the beginning is packed. A file whose name begins with "." is left out, so a program that writes a file under such a name and renames
// it never meets half of it.
func (c *Checkpoint) Pack(w io.Writer) error {
	to := tar.NewWriter(w)
	err := c.files(func(name string, info fs.FileInfo) error {
		f, err := safefile.Open(filepath.Join(c.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the program has deleted it
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o600, Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err = io.CopyN(to, f, info.Size()) // a file that has become shorter ends this
		return err
	})
	if err != nil {
		return err
	}
	return to.Close()
}

// files calls visit for each file that is to be packed, in order.
func (c *Checkpoint) files(visit func(name string, info fs.FileInfo) error) error {
	n := 0
	return filepath.WalkDir(c.Dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // deleted meanwhile
			}
			return err
		}
		if n++; n > maxTravelFiles {
			return fmt.Errorf("it has more than %d files", maxTravelFiles)
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // deleted meanwhile
		}
		name, err := filepath.Rel(c.Dir, file)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(name), info)
	})
}

// originName is the file, beside the checkpoint and its lock, that says where the checkpoint comes from.
const originName = "origin"

// Origin returns what SetOrigin was told last, also of an attempt before; empty for nothing.
func (c *Checkpoint) Origin() string {
	text, err := safefile.Read(filepath.Join(c.path, originName), maxOrigin)
	if err != nil {
		return "" // most have none
	}
	return string(text)
}

// maxOrigin is how long an origin may be, in bytes.
const maxOrigin = 1 << 10

// SetOrigin notes which archive the checkpoint was made of or has become last.
func (c *Checkpoint) SetOrigin(origin string) error {
	return safefile.Replace(filepath.Join(c.path, originName), []byte(origin))
}

// Restore replaces what is in the checkpoint by what Pack has packed. An error that wraps [jobs.ErrUnavailable] is one of this machine's
// disk. After any other, which is the archive's, the checkpoint is empty.
func (c *Checkpoint) Restore(r io.Reader) error {
	if err := c.empty(); err != nil {
		return unavailable(err)
	}
	err := c.unpack(tar.NewReader(r))
	if err != nil && !errors.Is(err, jobs.ErrUnavailable) {
		if emptied := c.empty(); emptied != nil {
			return unavailable(emptied)
		}
	}
	return err
}

func (c *Checkpoint) empty() error {
	entries, err := os.ReadDir(c.Dir)
	for _, entry := range entries {
		err = errors.Join(err, safefile.RemoveAll(filepath.Join(c.Dir, entry.Name())))
	}
	return err
}

func (c *Checkpoint) unpack(from *tar.Reader) error {
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return unavailable(err)
	}
	defer root.Close()
	for {
		head, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if head.Typeflag != tar.TypeReg || !filepath.IsLocal(head.Name) {
			return fmt.Errorf("it has %q, which is no file below its directory", head.Name)
		}
		if dir := filepath.Dir(head.Name); dir != "." {
			if err := root.MkdirAll(dir, 0o700); err != nil {
				return unavailable(err)
			}
		}
		f, err := root.OpenFile(head.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return unavailable(err)
		}
		_, err = io.Copy(Writer(f), from)
		if closed := f.Close(); err == nil && closed != nil {
			err = unavailable(closed)
		}
		if err != nil {
			return err
		}
	}
}
