package flock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfleet/batchfleet/flock"
)

func TestLockHoldsUntilItsFileIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := open(), open()
	defer second.Close()
	if err := flock.Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := flock.Lock(second); !errors.Is(err, flock.ErrLocked) {
		t.Errorf("a second lock: %v, want %v", err, flock.ErrLocked)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := flock.Lock(second); err != nil {
		t.Errorf("after the first file was closed: %v", err)
	}
}
