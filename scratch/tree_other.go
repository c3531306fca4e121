//go:build !linux

package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/batchfleet/batchfleet/safefile"
)

// checkOwner checks nothing: modes have to do.
func checkOwner(string) error { return nil }

func holdDir(string) (*os.File, error) { return nil, nil }

// Inspect and IsEmpty say no, so that no directory is used twice.
func Inspect(string) (now DirState, names int, ok bool) { return DirState{}, 0, false }

func (*DirState) IsEmpty(string) bool { return false }

func rename(from, to string) error { return os.Rename(from, to) }

// renameNew is not called: nothing is used twice.
func renameNew(string, string) error { return errors.ErrUnsupported }

func links(fs.FileInfo) int { return 0 }

func removeTree(path string, _ time.Duration) error { return safefile.RemoveAll(path) }

// tree adds what is in a directory. What is allocated is taken for the size.
func (m *meter) tree(path string) error {
	return filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == path {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return err
		}
		m.usage.Files++
		if info.Mode().IsRegular() {
			m.usage.Bytes += info.Size()
			m.usage.Apparent += info.Size()
		}
		return nil
	})
}
