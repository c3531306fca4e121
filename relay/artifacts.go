package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/batchfleet/batchfleet/jobs"
)

// errDamaged means that a file is no longer as the task has made it. To try again does not help.
var errDamaged = errors.New("the file on disk is not as the task has made it")

// openArtifact opens a file that a task has made. A link in its place is not followed. The error wraps errDamaged if
// the file is gone or another one.
func (ts *Tasks) openArtifact(id jobs.ID, a Artifact) (*os.File, error) {
	name := filepath.Join(string(id), artifactsDir, a.Name)
	there, err := ts.dir.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("artifact %s: %w: it is gone", a.Name, errDamaged)
	case err != nil:
		return nil, fmt.Errorf("artifact %s: %w", a.Name, err)
	case !there.Mode().IsRegular() || there.Size() != a.Size:
		return nil, fmt.Errorf("artifact %s: %w", a.Name, errDamaged)
	}
	f, err := ts.dir.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("artifact %s: %w", a.Name, err)
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(opened, there) {
		_ = f.Close() // it was only opened
		return nil, fmt.Errorf("artifact %s: %w: it has just been replaced", a.Name, errDamaged)
	}
	return f, nil
}

// checked reads an artifact. It gives out the last bytes only if all of them are what the task has made: whoever is
// sent a file that was changed gets a part of it at most, and so less than it was promised.
type checked struct {
	io.ReadCloser
	artifact Artifact
	read     int64
	hash     hash.Hash
}

// openChecked opens an artifact to be sent. One that has not been touched since this process saw it made is not read for its
// hash again, which takes longer than to send it.
func (ts *Tasks) openChecked(id jobs.ID, a Artifact) (io.ReadCloser, error) {
	f, err := ts.openArtifact(id, a)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err == nil && ts.untouched(id, a, now) {
		return f, nil
	}
	return &checked{f, a, 0, sha256.New()}, nil
}

// see notes the files that a task has made just now, as they are. e.mu is held.
func (ts *Tasks) see(e *entry, made []Artifact) {
	e.made = map[string]fs.FileInfo{}
	for _, a := range made {
		if info, err := ts.dir.root.Lstat(filepath.Join(string(e.id), artifactsDir, a.Name)); err == nil {
			e.made[a.Name] = info
		}
	}
}

// untouched reports whether a file is as this process saw it made.
func (ts *Tasks) untouched(id jobs.ID, a Artifact, now fs.FileInfo) bool {
	e := ts.find(id)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	then := e.made[a.Name]
	return then != nil && os.SameFile(then, now) && then.ModTime().Equal(now.ModTime())
}

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.hash.Write(p[:n])
	c.read += int64(n)
	if c.read >= c.artifact.Size && hex.EncodeToString(c.hash.Sum(nil)) != c.artifact.SHA256 {
		return 0, fmt.Errorf("artifact %s: %w", c.artifact.Name, errDamaged)
	}
	return n, err
}
