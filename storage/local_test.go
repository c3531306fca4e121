package storage_test

import (
	"testing"

	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/storage/storagetest"
)

func newLocal(tb testing.TB) (*storage.Local, string) {
	tb.Helper()
	dir := tb.TempDir()
	s, err := storage.NewLocal(dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s, dir
}

func TestF46LocalKeepsThePromises(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		s, _ := newLocal(t)
		return s
	})
}
