package journal

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
)

// firstSegment is the number of the segment that follows no checkpoint. As long as
// it is there, so are all segments after it (see removeBefore).
const firstSegment = 1

// maxLines is how many lines are logged about the damage in one file.
const maxLines = 100

// A readResult is what readFile found in a file.
type readResult struct {
	good, size int64 // the end of the last whole frame, the end of the file
	damaged    bool  // before good
	complete   bool  // ends as a checkpoint does
	unreadable error // of the disk, if a part of the file could not be read
}

// readFile calls visit for each record, which is valid until visit returns, and
// gap for what was skipped between two. What is behind the last good frame is
// left to the caller.
func readFile(dir string, f file, visit func(record []byte, at int64), gap func(from, to int64)) (readResult, error) {
	in, err := os.Open(filepath.Join(dir, f.name()))
	if err != nil {
		return readResult{}, err
	}
	defer func() { _ = in.Close() }() // only read
	info, err := in.Stat()
	if err != nil {
		return readResult{}, err
	}
	s := scanner{r: in, size: info.Size(), salt: f.salt}
	var r readResult
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

// A replayer calls apply with the records of the files.
type replayer struct {
	dir   string
	log   *slog.Logger
	apply func(record []byte) error

	records int
}

// replay applies all records of one file and logs its damage, except a damaged
// end.
func (r *replayer) replay(f file) (readResult, error) {
	lines := 0
	warn := func(msg string, args ...any) {
		if lines++; lines <= maxLines {
			r.log.Warn(msg, append([]any{"file", f.name()}, args...)...)
		}
	}
	got, err := readFile(r.dir, f, func(record []byte, at int64) {
		r.records++
		if err := r.apply(record); err != nil {
			warn("record of the journal is skipped", "offset", at, "bytes", len(record), "err", err)
		}
	}, func(from, to int64) {
		warn("damaged part of the journal is skipped", "offset", from, "bytes", to-from)
	})
	if lines > maxLines {
		r.log.Warn("more of the journal is skipped", "file", f.name(), "times", lines-maxLines)
	}
	if got.unreadable != nil {
		r.log.Error("the disk cannot read all of the journal", "file", f.name(), "err", got.unreadable)
	}
	return got, err
}

// A replayed is what replayAll found and left in the directory.
type replayed struct {
	last           *segment // to append to; it may be new
	segmentBytes   int64
	checkpointSize int64
}

// replayAll applies the newest checkpoint and the segments after it.
func (r *replayer) replayAll(l listing) (replayed, error) {
	base, err := r.base(l)
	if err != nil {
		return replayed{}, err
	}
	var state replayed
	if base.number > 0 {
		got, err := r.replay(base)
		if err != nil {
			return replayed{}, err
		}
		if !got.complete {
			r.log.Warn("checkpoint of the journal has lost its end", "file", base.name(), "offset", got.good, "bytes", got.size-got.good)
		}
		state.checkpointSize = got.size
	}
	state.last = &segment{file: newFile(segmentFile, max(firstSegment, l.newest()))}
	segments := slices.DeleteFunc(slices.Clone(l.segments), func(f file) bool { return f.number < base.number })
	for i, f := range segments {
		got, err := r.replay(f)
		if err != nil {
			return replayed{}, err
		}
		state.segmentBytes += got.good
		switch {
		case i == len(segments)-1 && f.number == l.newest():
			state.last, err = r.repair(f, got)
			if err != nil {
				state.last = &segment{file: newFile(segmentFile, f.number+1)}
				r.log.Warn("torn end of the journal is left as it is", "file", f.name(), "offset", got.good, "bytes", got.size-got.good, "err", err)
			}
		case got.size > got.good:
			r.log.Warn("damaged part of the journal is skipped", "file", f.name(), "offset", got.good, "bytes", got.size-got.good)
		}
	}
	r.tidy(l, base)
	return state, nil
}

// base returns the newest checkpoint, or number 0 to begin with the first segment.
// After a crash while older files were being removed there are several, and base
// returns the newest that is undamaged.
func (r *replayer) base(l listing) (file, error) {
	candidates := slices.Clone(l.checkpoints)
	if len(l.segments) > 0 && l.segments[0].number == firstSegment {
		candidates = slices.Insert(candidates, 0, file{})
	}
	switch len(candidates) {
	case 0:
		return file{}, nil
	case 1:
		return candidates[0], nil
	}
	for _, f := range slices.Backward(candidates) {
		if f.number == 0 {
			return f, nil
		}
		got, err := readFile(r.dir, f, func([]byte, int64) {}, func(int64, int64) {})
		if err != nil {
			return file{}, err
		}
		if got.complete && !got.damaged {
			return f, nil
		}
		r.log.Warn("checkpoint of the journal is damaged, older ones are tried", "file", f.name())
	}
	return candidates[len(candidates)-1], nil
}

// tidy removes files that a crash has left behind.
func (r *replayer) tidy(l listing, base file) {
	for _, name := range l.tmp {
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
			r.log.Warn("unfinished checkpoint is left in the journal", "file", name, "err", err)
		}
	}
	if n := len(l.checkpoints); n == 0 || l.checkpoints[n-1] != base {
		return // the newest is damaged: it is kept for people to look at
	}
	if err := removeBefore(r.dir, base.number); err != nil {
		r.log.Warn("old files are left in the journal", "err", fmt.Errorf("remove files before %s: %w", base.name(), err))
	}
}
