package control

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

// Spool keeps parts of artifacts in a directory until they have arrived whole. A gateway that
// is started again, also after kill -9, goes on with what is there; the SHA-256 of the whole
// tells whether that was any good.
type Spool struct {
	dir string

	mu   sync.Mutex
	busy map[string]bool // files that a request is writing to
}

// OpenSpool returns the spool in a directory, which it makes. It is refused where others may
// write to it. Parts to which nothing was added for a day are deleted.
func OpenSpool(dir string) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = safefile.Dir(dir)
	}
	s := &Spool{dir: dir, busy: map[string]bool{}}
	if err == nil {
		_, err = s.sweep(spoolKept)
	}
	return s, err
}

// part is an artifact that has not arrived whole, taken by one request.
type part struct {
	*os.File
	spool *Spool
	path  string
	have  int64
}

// errBusy means that another request has the same part.
var errBusy = &gateway.Error{
	Status: 503, Code: wire.Unavailable, Message: "Another request is sending the same artifact, or it is being stored; try again later", RetryAfter: retryAfter,
}

// path returns the file of an artifact. Another content has another file.
func (s *Spool) path(id jobs.ID, lease, name, sum string) string {
	file := sha256.Sum256([]byte(name + "\n" + sum))
	return filepath.Join(s.dir, string(id)+"@"+leaseDir(lease)+"@"+hex.EncodeToString(file[:16]))
}

// have returns how much of an artifact there is.
func (s *Spool) have(id jobs.ID, lease, name, sum string) (int64, error) {
	info, err := os.Lstat(s.path(id, lease, name, sum))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, unwritable(err)
	}
	return info.Size(), nil
}

// open takes the part of an artifact that there is, and errBusy if another request has.
func (s *Spool) open(id jobs.ID, lease, name, sum string) (*part, error) {
	p := &part{spool: s, path: s.path(id, lease, name, sum)}
	s.mu.Lock()
	taken := s.busy[p.path]
	s.busy[p.path] = true
	s.mu.Unlock()
	if taken {
		return nil, errBusy
	}
	f, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		p.File = f
		p.have, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, errors.Join(unwritable(err), p.release())
	}
	return p, nil
}

// unwritable is an error of the disk: the caller may try again later.
func unwritable(err error) error {
	return fmt.Errorf("write spool directory: %w: %w", jobs.ErrUnavailable, err)
}

// restart forgets what there is.
func (p *part) restart() error {
	err := p.Truncate(0)
	if err == nil {
		p.have, err = p.Seek(0, io.SeekStart)
	}
	if err != nil {
		return unwritable(err)
	}
	return nil
}

// release lets other requests have the part.
func (p *part) release() error {
	var err error
	if p.File != nil {
		err = p.Close()
	}
	p.spool.mu.Lock()
	delete(p.spool.busy, p.path)
	p.spool.mu.Unlock()
	return err
}

// remove deletes the part.
func (p *part) remove() error { return os.Remove(p.path) }

// sweep deletes the parts to which nothing was added for a while: their attempts have ended.
func (s *Spool) sweep(older time.Duration) (n int, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		s.mu.Lock()
		busy := s.busy[path]
		s.mu.Unlock()
		info, statErr := e.Info()
		if busy || statErr != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < older {
			continue
		}
		if err2 := os.Remove(path); err2 != nil {
			err = errors.Join(err, err2)
		} else {
			n++
		}
	}
	return n, err
}
