package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/journal"
)

// Journals of released versions must stay readable: testdata/v1 was written by
// the first version of the format.
func TestE06JournalOfTheFirstVersionIsRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/v1")); err != nil {
		t.Fatal(err)
	}
	j, got := open(t, dir)
	wantRecords(t, got, "state", "", "first", "", "bfjr", strings.Repeat("x", 300))
	closed(t, j)
}

// And what is written today must be readable for the version before.
func TestE06JournalIsWrittenAsByTheFirstVersion(t *testing.T) {
	segment := only(t, "testdata/v1", "segment.*")
	salt, err := strconv.ParseUint(strings.Split(filepath.Base(segment), ".")[2], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	var frames []byte
	for _, r := range []string{"first", "", "bfjr", strings.Repeat("x", 300)} {
		frames = journal.AppendFrame(frames, uint32(salt), []byte(r))
	}
	if want := readFile(t, segment); !bytes.Equal(frames, want) {
		t.Errorf("the frames are\n%x, want\n%x", frames, want)
	}
}
