package storagetest

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/storage"
)

// PutString stores a text.
func PutString(t *testing.T, s storage.Store, name, content string) {
	t.Helper()
	put(t, s, name, strings.NewReader(content))
}

// GetString returns what is stored as a text.
func GetString(t *testing.T, s storage.Store, name string) string {
	t.Helper()
	return string(read(t, s, name))
}
