package journal

import (
	"io"
	"log/slog"
	"os"
)

// A FailingDisk is the real one unless its functions say otherwise.
type FailingDisk struct {
	OnWrite    func(b []byte, at int64) error // nil: write
	OnSync     func() error
	OnSyncFile func(f *os.File) error // as OnSync, with the file
}

func (d FailingDisk) writeAt(f *os.File, b []byte, at int64) error {
	if d.OnWrite != nil {
		if err := d.OnWrite(b, at); err != nil {
			_ = realDisk{}.writeAt(f, b[:len(b)/2], at)
			return err
		}
	}
	return realDisk{}.writeAt(f, b, at)
}

func (d FailingDisk) sync(f *os.File) error {
	if d.OnSync != nil {
		if err := d.OnSync(); err != nil {
			return err
		}
	}
	if d.OnSyncFile != nil {
		if err := d.OnSyncFile(f); err != nil {
			return err
		}
	}
	return realDisk{}.sync(f)
}

// SetDisk must come before the first Append.
func (j *Journal) SetDisk(d FailingDisk) { j.disk = d }

// Steps are the steps of Done before files are removed.
func (c *Checkpoint) Steps() []func() error { return c.steps() }

// Waiting is how many wait in Commit.
func (j *Journal) Waiting() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.waiting)
}

func AppendFrame(b []byte, salt uint32, record []byte) []byte {
	return appendFrame(b, salt, kindRecord, record)
}

const HeaderSize = headerSize

// Scan calls visit for every frame, and returns why not everything was readable.
func Scan(r io.ReaderAt, size int64, salt uint32, visit func(at int64, record []byte)) error {
	s := scanner{r: r, size: size, salt: salt}
	for {
		f, ok := s.next()
		if !ok {
			return s.unreadable
		}
		visit(f.at, f.record)
	}
}

// Repair repairs the segment as if reading it had ended at good.
func Repair(dir, name string, good, size int64, unreadable error) error {
	f, _, _, err := parseName(name)
	if err != nil {
		return err
	}
	r := replayer{dir: dir, log: slog.New(slog.DiscardHandler)}
	_, err = r.repair(f, readResult{good: good, size: size, unreadable: unreadable})
	return err
}
