package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/journal"
)

// A place is where a record is in the files.
type place struct {
	record   string
	file     string
	from, to int
}

// TestE06JournalDamageCostsOnlyWhatItHits damages files anywhere and expects
// exactly those records that were not hit.
func TestE06JournalDamageCostsOnlyWhatItHits(t *testing.T) {
	testrun.Long(t, "it takes much CPU")
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "") //nolint:usetesting // one for each check
		if err != nil {
			rt.Fatal(err)
		}
		places := lay(t, rt, dir)
		before := map[string][]byte{}
		for _, name := range glob(t, dir, "*.v1") {
			before[name] = readFile(t, filepath.Join(dir, name))
		}
		for range rapid.IntRange(0, 4).Draw(rt, "hits") {
			name := rapid.SampledFrom(glob(t, dir, "*.v1")).Draw(rt, "file")
			b := readFile(t, filepath.Join(dir, name))
			if len(b) == 0 {
				continue
			}
			from := rapid.IntRange(0, len(b)-1).Draw(rt, "from")
			to := min(len(b), from+rapid.SampledFrom([]int{1, 1, 3, 50, 5000}).Draw(rt, "bytes"))
			damage(rt, b[from:to])
			writeFile(t, filepath.Join(dir, name), b)
		}
		var want []string
		for _, p := range places {
			if bytes.Equal(readFile(t, filepath.Join(dir, p.file))[p.from:p.to], before[p.file][p.from:p.to]) {
				want = append(want, p.record)
			}
		}
		j, got, log := openLogged(t, dir, retrying)
		if !slices.Equal(got, want) {
			rt.Errorf("got %.30q, want %.30q", got, want)
		}
		if len(want) < len(places) && log == "" {
			rt.Error("records are lost without a word")
		}
		appendAll(t, j, "appended")
		closed(t, j)
		j, got, _ = openLogged(t, dir, retrying)
		if !slices.Equal(got, append(want, "appended")) {
			rt.Errorf("then got %.30q, want %.30q and what was appended", got, want)
		}
		closed(t, j)
	})
}

// lay makes a journal, perhaps with a checkpoint and several segments, and
// returns where its records are.
func lay(t *testing.T, rt *rapid.T, dir string) []place {
	t.Helper()
	j, _ := open(t, dir)
	var places []place
	put := func(add func(record []byte) error) (row []place) {
		at := 0
		for range rapid.IntRange(0, 6).Draw(rt, "records") {
			record := fmt.Sprint(len(places)+len(row)) + strings.Repeat(rapid.SampledFrom([]string{"", "x", "bfj", "bfjr\x00\x00\x00\x00"}).Draw(rt, "content"), rapid.SampledFrom([]int{0, 1, 100, 100_000}).Draw(rt, "times"))
			if err := add([]byte(record)); err != nil {
				rt.Fatal(err)
			}
			next := at + journal.HeaderSize + len(record)
			row = append(row, place{record, "", at, next})
			at = next
		}
		return row
	}
	named := func(row []place, file string) {
		for i := range row {
			row[i].file = filepath.Base(file)
		}
		places = append(places, row...)
	}
	if rapid.Bool().Draw(rt, "checkpoint") {
		c := begin(t, j)
		row := put(c.Add)
		if err := c.Done(); err != nil {
			rt.Fatal(err)
		}
		named(row, only(t, dir, "checkpoint.*.v1"))
	}
	for range rapid.IntRange(1, 3).Draw(rt, "segments") {
		before := glob(t, dir, "segment.*.v1")
		row := put(func(record []byte) error { return j.Commit(t.Context(), j.Append(record), false) })
		if len(row) > 0 {
			after := slices.DeleteFunc(glob(t, dir, "segment.*.v1"), func(name string) bool { return slices.Contains(before, name) })
			named(row, after[0])
		}
		begin(t, j).Abort()
	}
	// So that the torn end of the last one is not the end of the journal.
	appendAll(t, j, "last")
	named([]place{{"last", "", 0, journal.HeaderSize + 4}}, glob(t, dir, "segment.*.v1")[len(glob(t, dir, "segment.*.v1"))-1])
	closed(t, j)
	return places
}

// damage changes at least one bit of every byte.
func damage(rt *rapid.T, b []byte) {
	how := rapid.SampledFrom([]string{"bit", "zeros", "noise", "magic"}).Draw(rt, "how")
	bit := byte(1) << rapid.IntRange(0, 7).Draw(rt, "bit")
	for i := range b {
		old := b[i]
		switch how {
		case "zeros":
			b[i] = 0
		case "noise":
			b[i] = byte(i*7919>>3) ^ bit
		case "magic":
			b[i] = "bfjr"[i%4]
		}
		if b[i] == old {
			b[i] ^= bit
		}
	}
}

func TestE06JournalMissingBytesCostTheirRecord(t *testing.T) {
	// No disk does this, but who repairs a file by hand may.
	dir := t.TempDir()
	j, _ := open(t, dir)
	appendAll(t, j, "a", strings.Repeat("b", 1000), "c", "d")
	closed(t, j)
	segment := only(t, dir, "segment.*.v1")
	b := readFile(t, segment)
	writeFile(t, segment, slices.Delete(b, 500, 600))
	_, got, log := openLogged(t, dir, retrying)
	wantRecords(t, got, "a", "c", "d")
	if !strings.Contains(log, "offset=17 bytes=916") {
		t.Errorf("logged %s", log)
	}
}

func TestE06JournalTruncatedCheckpointIsUsedWhenItIsAllThereIs(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	appendAll(t, j, "old")
	checkpoint(t, j, "a", "b", "c")
	appendAll(t, j, "d")
	closed(t, j)
	path := only(t, dir, "checkpoint.*.v1")
	writeFile(t, path, readFile(t, path)[:2*(journal.HeaderSize+1)+3])
	_, got, log := openLogged(t, dir, retrying)
	wantRecords(t, got, "a", "b", "d")
	if !strings.Contains(log, "checkpoint of the journal has lost its end") {
		t.Errorf("logged %s", log)
	}
}

// badSectors cannot be read in some places.
type badSectors struct {
	io.ReaderAt
	from, to int64
}

var errSector = errors.New("bad sector")

func (b badSectors) ReadAt(p []byte, at int64) (int, error) {
	if at < b.to && at+int64(len(p)) > b.from {
		n, _ := b.ReaderAt.ReadAt(p[:max(0, b.from-at)], at)
		return n, errSector
	}
	return b.ReaderAt.ReadAt(p, at)
}

func TestE06JournalReadsAroundBadSectors(t *testing.T) {
	var file []byte
	var want []string
	for i := range 1000 {
		record := fmt.Sprintf("%d %s", i, strings.Repeat("x", i))
		from := len(file)
		file = journal.AppendFrame(file, 7, []byte(record))
		if len(file) <= 8192 || from >= 16384 && len(file) <= 300<<10 || from >= 304<<10 {
			want = append(want, record)
		}
	}
	r := badSectors{badSectors{bytes.NewReader(file), 8192, 16384}, 300 << 10, 304 << 10}
	var got []string
	err := journal.Scan(r, int64(len(file)), 7, func(_ int64, record []byte) { got = append(got, string(record)) })
	if !errors.Is(err, errSector) {
		t.Errorf("the scan says %v", err)
	}
	wantRecords(t, got, want...)
}

func TestE06JournalCutsNothingThatCouldNotBeRead(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir)
	appendAll(t, j, "a", "b")
	closed(t, j)
	segment := only(t, dir, "segment.*.v1")
	if err := journal.Repair(dir, filepath.Base(segment), 17, 34, errSector); !errors.Is(err, errSector) {
		t.Errorf("repair = %v", err)
	}
	_, got := open(t, dir)
	wantRecords(t, got, "a", "b")
}

// FuzzReplay expects the frames that are there, in any bytes: those it finds are
// the ones that a search at every offset finds, as far as they do not overlap.
func FuzzReplay(f *testing.F) {
	const salt = 7
	good := journal.AppendFrame(journal.AppendFrame(nil, salt, []byte("first")), salt, bytes.Repeat([]byte("bfj"), 20))
	f.Add(good)
	f.Add(append(slices.Clone(good), good[:30]...))
	f.Add(append([]byte("bfjbfjr"), good...))
	f.Add(append([]byte("x"), good...))
	f.Add(journal.AppendFrame(nil, salt, good))
	f.Add([]byte("bfjr\xff\xff\xff\x03"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			t.Skip("no more is learned")
		}
		type found struct {
			At     int64
			Record string
		}
		var got, want []found
		if err := journal.Scan(bytes.NewReader(b), int64(len(b)), salt, func(at int64, record []byte) {
			got = append(got, found{at, string(record)})
		}); err != nil {
			t.Fatal(err)
		}
		for at := 0; at+journal.HeaderSize <= len(b); at++ {
			n := int(uint32(b[at+4]) | uint32(b[at+5])<<8 | uint32(b[at+6])<<16 | uint32(b[at+7])<<24)
			if n > len(b)-at-journal.HeaderSize {
				continue
			}
			record := b[at+journal.HeaderSize:][:n]
			frame := journal.AppendFrame(nil, salt, record)
			kind := frame[3]
			if b[at+3] != kind || !bytes.Equal(frame, b[at:at+len(frame)]) {
				continue
			}
			want = append(want, found{int64(at), string(record)})
			at += len(frame) - 1
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
