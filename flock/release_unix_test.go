//go:build unix

package flock_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/batchfleet/batchfleet/flock"
)

func TestReleasedLockIsFreeWhileAnotherProcessHasTheFile(t *testing.T) {
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
	other, err := syscall.Dup(int(first.Fd())) // as a process that is being started has it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(other)
	if err := flock.Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := flock.Release(first); err != nil {
		t.Fatal(err)
	}
	if err := flock.Lock(second); err != nil {
		t.Errorf("after Release: %v", err)
	}
}
