package storagetest

import (
	"io"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/storage"
)

// PutString stores a text.
func PutString(t *testing.T, s storage.Store, name, content string) {
	t.Helper()
	if err := s.Put(t.Context(), name, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

// GetString returns what is stored as a text.
func GetString(t *testing.T, s storage.Store, name string) string {
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
