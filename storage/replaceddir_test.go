package storage_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

// replaceDir renames dir to hidden and makes an empty one in its place, as a mount does.
func replaceDir(t *testing.T, dir, hidden string) {
	t.Helper()
	if err := errors.Join(os.Rename(dir, hidden), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
}

func TestJWhatIsThereIsAskedOfTheDirectoryAsItIsNow(t *testing.T) {
	s, dir := newLocal(t)
	storagetest.PutString(t, s, "hidden", "x")
	replaceDir(t, dir, dir+".1")
	if _, err := s.Stat(t.Context(), "hidden"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat = %v, want fs.ErrNotExist", err)
	}
	storagetest.PutString(t, s, "hidden too", "x")
	replaceDir(t, dir, dir+".2")
	if got := namesBelow(t, s, ""); got != nil {
		t.Errorf("shown %q", got)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("looking has made %v, %v", made, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	_, statErr := s.Stat(t.Context(), "hidden")
	walkErr := s.Walk(t.Context(), "", func(string, storage.Info, error) error { return nil })
	for _, err := range []error{statErr, walkErr} {
		if !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v without a directory, want jobs.ErrUnavailable", err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking has made the directory: %v", err)
	}
}

func TestJDirectoryMayBeReplacedDuringAnyCall(t *testing.T) {
	s, dir := newLocal(t)
	done := make(chan struct{})
	var using sync.WaitGroup
	for _, use := range []func() error{
		func() error { _, err := s.Stat(t.Context(), "d/object"); return err },
		func() error { return s.Walk(t.Context(), "d/", func(string, storage.Info, error) error { return nil }) },
		func() error { return s.Put(t.Context(), "d/object", strings.NewReader("x")) },
		func() error { return s.Delete(t.Context(), "d/object") },
		func() error { return s.Check(t.Context()) },
	} {
		using.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := use(); err != nil && !errors.Is(err, jobs.ErrUnavailable) && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
		})
	}
	for i := range 50 {
		// A Check may make the directory between the two.
		if err := os.Rename(dir, dir+"."+strconv.Itoa(i)); err != nil {
			t.Error(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	close(done)
	using.Wait()
	storagetest.PutString(t, s, "d/old", "x") // into whichever is open
	if got := namesBelow(t, s, ""); len(got) > 2 {
		t.Errorf("shown %q", got)
	}
	storagetest.PutString(t, s, "d/new", "x")
	if _, err := os.Stat(dir + "/d/new"); err != nil {
		t.Errorf("the directory that was used last is not the one that exists now: %v", err)
	}
}

func namesBelow(t *testing.T, s storage.Store, prefix string) (names []string) {
	t.Helper()
	err := s.Walk(t.Context(), prefix, func(name string, _ storage.Info, err error) error {
		if err != nil {
			return err
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Errorf("Walk(%q) = %v", prefix, err)
	}
	slices.Sort(names)
	return names
}
