package storage_test

import (
	"io"
	"strings"
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

func putString(t *testing.T, s storage.Store, name, content string) {
	t.Helper()
	if err := s.Put(t.Context(), name, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func getString(t *testing.T, s storage.Store, name string) string {
	t.Helper()
	r, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
