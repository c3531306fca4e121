package journal

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
)

// firstSegment is the number of the segment that follows no checkpoint. Where it
// still is, so are all segments behind it (see removeBefore).
const firstSegment = 1

// maxLines is how many lines are logged about one file's damage.
const maxLines = 100

// A reading is what became of reading a file.
type reading struct {
	good, size int64 // the end of the last whole frame, the end
	damaged    bool  // before good
	complete   bool  // ends as a checkpoint does
	unreadable error // from the disk, when it could not be read everywhere
}

func (r reading) intact() bool { return !r.damaged && r.complete }

// readFile calls visit for each record, which is good until visit returns, and
// gap for what was skipped between two. What is behind the last good frame is
// left to the caller.
func readFile(dir string, f file, visit func(record []byte, at int64), gap func(from, to int64)) (reading, error) {
	in, err := os.Open(filepath.Join(dir, f.name()))
	if err != nil {
		return reading{}, err
	}
	defer func() { _ = in.Close() }() // only read
	info, err := in.Stat()
	if err != nil {
		return reading{}, err
	}
	s := scanner{r: in, size: info.Size(), salt: f.salt}
	var r reading
	var records uint64
	for {
		f, ok := s.next()
		if !ok {
			r.size, r.unreadable = s.size, s.unreadable
			r.complete = r.complete && r.good == r.size
			return r, nil
		}
		if f.at > r.good {
			r.damaged = true
			gap(r.good, f.at)
		}
		r.good = f.end
		r.complete = f.kind == kindEnd && string(f.record) == string(binary.LittleEndian.AppendUint64(nil, records))
		if f.kind == kindRecord {
			records++
			visit(f.record, f.at)
		}
	}
}

// A replayer gives what the files hold to apply.
type replayer struct {
	dir   string
	log   *slog.Logger
	apply func(record []byte) error

	records int
}

// replay applies all records of one file and logs what is wrong with it, but
// for the end of the file.
func (r *replayer) replay(f file) (reading, error) {
	lines := 0
	few := func(msg string, args ...any) {
		if lines++; lines <= maxLines {
			r.log.Warn(msg, append([]any{"file", f.name()}, args...)...)
		}
	}
	got, err := readFile(r.dir, f, func(record []byte, at int64) {
		r.records++
		if err := r.apply(record); err != nil {
			few("record of the journal is skipped", "offset", at, "bytes", len(record), "err", err)
		}
	}, func(from, to int64) {
		few("damaged part of the journal is skipped", "offset", from, "bytes", to-from)
	})
	if lines > maxLines {
		r.log.Warn("more of the journal is skipped", "file", f.name(), "times", lines-maxLines)
	}
	if got.unreadable != nil {
		r.log.Error("the disk cannot read all of the journal", "file", f.name(), "err", got.unreadable)
	}
	return got, err
}

// replayAll applies everything that counts. It returns the segment to go on
// with, which may be new, and how many bytes of segments there are.
func (r *replayer) replayAll(l listing) (*segment, int64, int64, error) {
	base, err := r.base(l)
	if err != nil {
		return nil, 0, 0, err
	}
	var checkpointed int64
	if base.number > 0 {
		got, err := r.replay(base)
		if err != nil {
			return nil, 0, 0, err
		}
		if !got.complete {
			r.log.Warn("checkpoint of the journal has lost its end", "file", base.name(), "offset", got.good, "bytes", got.size-got.good)
		}
		checkpointed = got.size
	}
	var bytes int64
	last := &segment{file: newFile(segmentFile, max(firstSegment, l.newest()))}
	segments := slices.DeleteFunc(slices.Clone(l.segments), func(f file) bool { return f.number < base.number })
	for i, f := range segments {
		got, err := r.replay(f)
		if err != nil {
			return nil, 0, 0, err
		}
		bytes += got.good
		switch {
		case i == len(segments)-1 && f.number == l.newest():
			last, err = r.repair(f, got)
			if err != nil {
				last = &segment{file: newFile(segmentFile, f.number+1)}
				r.log.Warn("torn end of the journal is left as it is", "file", f.name(), "offset", got.good, "bytes", got.size-got.good, "err", err)
			}
		case got.size > got.good:
			r.log.Warn("damaged part of the journal is skipped", "file", f.name(), "offset", got.good, "bytes", got.size-got.good)
		}
	}
	r.tidy(l, base)
	return last, bytes, checkpointed, nil
}

// base returns the checkpoint to begin with, number 0 if that is the first
// segment: the newest. A crash while the older ones were being removed leaves a
// choice, and then it is the newest that is undamaged.
func (r *replayer) base(l listing) (file, error) {
	choice := slices.Clone(l.checkpoints)
	if len(l.segments) > 0 && l.segments[0].number == firstSegment {
		choice = slices.Insert(choice, 0, file{})
	}
	switch len(choice) {
	case 0:
		return file{}, nil
	case 1:
		return choice[0], nil
	}
	for _, f := range slices.Backward(choice) {
		if f.number == 0 {
			return f, nil
		}
		got, err := readFile(r.dir, f, func([]byte, int64) {}, func(int64, int64) {})
		if err != nil {
			return file{}, err
		}
		if got.intact() {
			return f, nil
		}
		r.log.Warn("checkpoint of the journal is damaged, older ones are tried", "file", f.name())
	}
	return choice[len(choice)-1], nil
}

// tidy removes what a crash has left behind.
func (r *replayer) tidy(l listing, base file) {
	for _, name := range l.tmp {
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
			r.log.Warn("unfinished checkpoint is left in the journal", "file", name, "err", err)
		}
	}
	if n := len(l.checkpoints); n == 0 || l.checkpoints[n-1] != base {
		return // the newest may yet be of use to somebody
	}
	if err := removeBefore(r.dir, base.number); err != nil {
		r.log.Warn("old files are left in the journal", "err", fmt.Errorf("remove files before %s: %w", base.name(), err))
	}
}
