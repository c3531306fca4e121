package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxTorn is how many torn ends are kept.
const maxTorn = 8

// repair cuts off what is behind the last good frame of the last segment. After
// an error the segment must not be appended to.
func (r *replayer) repair(f file, got readResult) (*segment, error) {
	// None of it counts as synced: its writer may have been killed before.
	s := &segment{file: f, size: got.good}
	if got.size == got.good {
		return s, nil
	}
	if got.unreadable != nil {
		return nil, got.unreadable // what cannot be read now may be whole
	}
	kept, err := r.cut(f, got)
	if err != nil {
		return nil, err
	}
	r.log.Warn("torn end of the journal is cut off", "file", f.name(), "offset", got.good, "bytes", got.size-got.good, "kept", kept)
	return s, nil
}

// cut moves what is behind the last good frame to a file of its own.
func (r *replayer) cut(f file, got readResult) (kept string, err error) {
	in, err := os.OpenFile(filepath.Join(r.dir, f.name()), os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.CreateTemp(r.dir, fmt.Sprintf("%s.%d.*%s", f.name(), got.good, tornSuffix))
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, io.NewSectionReader(in, got.good, got.size-got.good))
	if err = errors.Join(err, datasync(out), out.Close()); err != nil {
		return "", errors.Join(err, os.Remove(out.Name()))
	}
	r.forgetTorn(filepath.Base(out.Name()))
	return filepath.Base(out.Name()), in.Truncate(got.good)
}

// forgetTorn leaves only the latest torn ends.
func (r *replayer) forgetTorn(latest string) {
	l, err := list(r.dir)
	for _, name := range l.torn[:max(0, len(l.torn)-maxTorn)] { // by rising numbers of their segments
		if name != latest {
			err = errors.Join(err, os.Remove(filepath.Join(r.dir, name)))
		}
	}
	if err != nil {
		r.log.Warn("old torn ends are left in the journal", "err", err)
	}
}
