package access

import (
	"fmt"
	"sync/atomic"

	"github.com/batchfleet/batchfleet/safefile"
)

// maxFile bounds a file of rules, in bytes.
const maxFile = 1 << 20

// Load reads a file of rules, which other users must not be able to write. Mistakes in it are one [*kinds.FileError], which has all of them.
func Load(path string) (*ACL, error) {
	data, err := safefile.Secret(path, maxFile, safefile.OthersWrite)
	if err != nil {
		return nil, fmt.Errorf("read ACL: %w", err)
	}
	return Parse(path, data)
}

// File holds the rules that count now. A nil File has none and allows everything. Its methods may be called concurrently.
type File struct {
	path string
	now  atomic.Pointer[ACL]
}

// Open loads a file of rules, which [File.Reload] reads again. Without a path everything is allowed.
func Open(path string) (*File, error) {
	f := &File{path: path}
	return f, f.Reload()
}

// ACL returns the rules that count now; nil, which allows everything, without a file.
func (f *File) ACL() *ACL {
	if f == nil {
		return nil
	}
	return f.now.Load()
}

// Reload reads the file again. After an error the rules stay as they were.
func (f *File) Reload() error {
	if f == nil || f.path == "" {
		return nil
	}
	acl, err := Load(f.path)
	if err != nil {
		return err
	}
	f.now.Store(acl)
	return nil
}
