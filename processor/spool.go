package processor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// spool collects the pages of a running job in a file, so that a long document
// never sits in memory, and stores them in parts as it goes. The file is made
// with the first page.
//
// A part is named by its input and its first page and holds whole pages without
// a gap, so parts of different attempts fit together whichever of them were
// stored, and those of another document are not found.
type spool struct {
	dir   string
	store storage.Store
	job   jobs.ID
	input string // sha256 of the input in hex; empty for engines without one

	file  *os.File
	w     *bufio.Writer
	last  int   // number of the last page in the file, 0 for none
	saved int   // number of the last page that is in a part
	mark  int64 // where in the file the first page after saved begins
	size  int64
	parts []string
}

func (s *spool) partName(firstPage int) string {
	of := ""
	if s.input != "" {
		of = s.input[:16] + "-"
	}
	return fmt.Sprintf("results/%s/parts/%s%08d.jsonl", s.job, of, firstPage)
}

// resume reads the parts that an earlier attempt has left, and passes each of
// their pages to seen.
func (s *spool) resume(ctx context.Context, seen func(Record)) error {
	for {
		name := s.partName(s.last + 1)
		f, err := s.store.Open(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		before := s.last
		err = s.resumePart(f, seen)
		_ = f.Close() // only read from
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.parts = append(s.parts, name)
		if s.last == before {
			return nil // an empty part: what follows is read again
		}
		s.saved, s.mark = s.last, s.size
	}
}

func (s *spool) resumePart(f io.Reader, seen func(Record)) error {
	for lines := json.NewDecoder(f); ; {
		var rec Record
		switch err := lines.Decode(&rec); {
		case errors.Is(err, jobs.ErrUnavailable):
			return err
		case err != nil || rec.Page != s.last+1:
			return nil //nolint:nilerr // the end, or not ours: the pages from here on are read again
		}
		if err := s.add(rec); err != nil {
			return err
		}
		seen(rec)
	}
}

// add appends a page. Pages come in order.
func (s *spool) add(rec Record) error {
	if rec.Page != s.last+1 {
		return fmt.Errorf("engine passed page %d after page %d", rec.Page, s.last)
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "batchfleet-pages-")
		if err != nil {
			return fmt.Errorf("keep pages: %w", localError(err))
		}
		s.file, s.w = f, bufio.NewWriter(f)
		_ = os.Remove(f.Name()) // where that can be done now, nothing is left after a kill -9
	}
	line, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode page %d: %w", rec.Page, err)
	}
	if _, err := s.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("keep page %d: %w", rec.Page, localError(err))
	}
	s.last = rec.Page
	s.size += int64(len(line)) + 1
	return nil
}

// checkpoint stores the pages since the last checkpoint as a part.
func (s *spool) checkpoint(ctx context.Context) error {
	if s.last == s.saved {
		return nil
	}
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("checkpoint: %w", localError(err))
	}
	name := s.partName(s.saved + 1)
	if err := s.store.Put(ctx, name, io.NewSectionReader(s.file, s.mark, s.size-s.mark)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s.parts = append(s.parts, name)
	s.saved, s.mark = s.last, s.size
	return nil
}

// put stores all pages as one object.
func (s *spool) put(ctx context.Context, name string) error {
	if err := s.w.Flush(); err != nil {
		return localError(err)
	}
	return s.store.Put(ctx, name, io.NewSectionReader(s.file, 0, s.size))
}

// deleteParts deletes the parts, which are of no use once the result is stored. One
// that cannot be deleted does no harm. The last one is deleted first, so that those
// left by a process that is killed meanwhile can be found from the first on.
func (s *spool) deleteParts(ctx context.Context) {
	for _, name := range slices.Backward(s.parts) {
		if s.store.Delete(ctx, name) != nil {
			return
		}
	}
}

// remove deletes the file.
func (s *spool) remove() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name()) // what is left is for the system to clear
	}
}
