package journal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/batchfleet/batchfleet/safefile"
)

// A segment is a file of frames, written by one goroutine.
type segment struct {
	file
	f     *os.File // nil until the first write: a full disk may have no room for the file
	named bool     // its name survives a power cut

	size   int64 // of whole frames; the next one is written here
	synced int64 // the part that survives a power cut
	failed bool  // the last sync failed
}

// A disk is what writing needs of the system. Tests have one that fails.
type disk interface {
	writeAt(f *os.File, b []byte, at int64) error
	sync(f *os.File) error
}

type realDisk struct{}

func (realDisk) writeAt(f *os.File, b []byte, at int64) error {
	_, err := f.WriteAt(b, at)
	return err
}

func (realDisk) sync(f *os.File) error { return datasync(f) }

// write adds frames to the end of the segment. After an error a part of them may
// be there, behind size.
func (s *segment) write(d disk, dir string, frames []byte) error {
	if err := s.open(dir); err != nil {
		return err
	}
	if err := d.writeAt(s.f, frames, s.size); err != nil {
		return err
	}
	s.size += int64(len(frames))
	return nil
}

// cutTorn removes what a failed write left behind size, so that a crash leaves no
// torn end. Where that fails, the next write overwrites it.
func (s *segment) cutTorn() {
	if s.f != nil {
		_ = s.f.Truncate(s.size)
	}
}

func (s *segment) open(dir string) error {
	if s.f == nil {
		f, err := os.OpenFile(filepath.Join(dir, s.name()), os.O_RDWR|os.O_CREATE, fileMode)
		if err != nil {
			return err
		}
		s.f = f
	}
	if s.named {
		return nil
	}
	err := safefile.SyncDir(dir)
	s.named = err == nil
	return err
}

// sync makes all that is written survive a power cut. After an error it may be
// called again, and then rewrites what may be lost.
func (s *segment) sync(d disk) error {
	if s.size == s.synced {
		return nil
	}
	if s.failed {
		if err := s.rewrite(d); err != nil {
			return err
		}
	}
	err := d.sync(s.f)
	s.failed = err != nil
	if err != nil {
		return fmt.Errorf("sync %s: %w", s.f.Name(), err)
	}
	s.synced = s.size
	return nil
}

// rewrite writes once more what a failed sync may have lost. The kernel marks
// the pages of a failed sync as clean: another sync would do nothing, and
// succeed. They can be read as long as they are in memory; if they are not, the
// checksums do not match.
func (s *segment) rewrite(d disk) error {
	part := io.NewSectionReader(s.f, s.synced, s.size-s.synced)
	in := scanner{r: part, size: part.Size(), salt: s.salt}
	for at := int64(0); at < part.Size(); {
		f, ok := in.next()
		if !ok || f.at != at {
			return fmt.Errorf("sync %s: lost what was written at %d", s.f.Name(), s.synced+at)
		}
		at = f.end
	}
	b := make([]byte, chunkSize)
	for at := s.synced; at < s.size; {
		n, err := s.f.ReadAt(b[:min(int64(len(b)), s.size-at)], at)
		if n == 0 {
			return err
		}
		if err := d.writeAt(s.f, b[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

func (s *segment) close(d disk) error {
	if s.f == nil {
		return nil
	}
	if err := s.sync(d); err != nil {
		return err
	}
	f := s.f
	s.f = nil
	return f.Close()
}
