package journal

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/safefile"
)

// Only this user may read the records.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

const (
	segmentFile    = "segment"
	checkpointFile = "checkpoint"

	version = "1"

	tmpSuffix  = ".tmp"
	tornSuffix = ".torn"
)

// A file is a segment or a checkpoint.
type file struct {
	role   string // segmentFile or checkpointFile
	number uint64
	salt   uint32
}

func newFile(role string, number uint64) file {
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails
	return file{role, number, binary.LittleEndian.Uint32(salt[:])}
}

func (f file) name() string {
	return fmt.Sprintf("%s.%010d.%08x.v%s", f.role, f.number, f.salt, version)
}

var fileName = jobs.Form(`^(segment|checkpoint)\.([0-9]{10,18})\.([0-9a-f]{8})\.v([0-9]+)(\.tmp)?$`)

// parseName returns false for names that are not the journal's. Names of other
// versions are an error: what they hold must not be taken for damage.
func parseName(name string) (f file, tmp, ok bool, err error) {
	m := fileName().FindStringSubmatch(name)
	if m == nil {
		return file{}, false, false, nil
	}
	if m[4] != version {
		return file{}, false, false, fmt.Errorf("%s was written by another version of this program, which can read version %s", name, version)
	}
	number, _ := strconv.ParseUint(m[2], 10, 64) // 18 digits fit
	salt, _ := strconv.ParseUint(m[3], 16, 32)   // and so do these
	return file{m[1], number, uint32(salt)}, m[5] != "", true, nil
}

// A listing is what a journal's directory holds, in rising order.
type listing struct {
	checkpoints, segments []file
	tmp                   []string // names of checkpoints that were not finished
	torn                  []string // names of what was cut off
}

func list(dir string) (listing, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return listing{}, err
	}
	var l listing
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tornSuffix) {
			l.torn = append(l.torn, e.Name())
		}
		f, tmp, ok, err := parseName(e.Name())
		switch {
		case err != nil:
			return listing{}, err
		case !ok || !e.Type().IsRegular():
		case tmp:
			l.tmp = append(l.tmp, e.Name())
		case f.role == checkpointFile:
			l.checkpoints = append(l.checkpoints, f)
		default:
			l.segments = append(l.segments, f)
		}
	}
	for _, files := range [][]file{l.checkpoints, l.segments} {
		slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.number, b.number) })
	}
	return l, nil
}

// newest is the highest number there is.
func (l listing) newest() uint64 {
	var n uint64
	for _, files := range [][]file{l.checkpoints, l.segments} {
		if len(files) > 0 {
			n = max(n, files[len(files)-1].number)
		}
	}
	return n
}

// removeBefore deletes the files that a checkpoint of that number replaces. The
// older checkpoints and the oldest segment are deleted first, and the deletion is
// synced: as long as one of them is there, all files that belong to it are.
func removeBefore(dir string, number uint64) error {
	l, err := list(dir)
	if err != nil {
		return err
	}
	older := func(files []file) []file {
		i := slices.IndexFunc(files, func(f file) bool { return f.number >= number })
		if i < 0 {
			return files
		}
		return files[:i]
	}
	anchors, rest := older(l.checkpoints), older(l.segments)
	if len(rest) > 0 {
		anchors, rest = append(slices.Clone(anchors), rest[0]), rest[1:]
	}
	if len(anchors) == 0 {
		return nil
	}
	for _, f := range anchors {
		err = errors.Join(err, os.Remove(filepath.Join(dir, f.name())))
	}
	if err = errors.Join(err, safefile.SyncDir(dir)); err != nil {
		return err
	}
	for _, f := range rest {
		err = errors.Join(err, os.Remove(filepath.Join(dir, f.name())))
	}
	return err
}

// makeDir makes dir and the missing directories above it, so that they survive a
// power cut.
func makeDir(dir string) error {
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		missing = append(missing, d)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	for _, d := range missing {
		if err := safefile.SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}
