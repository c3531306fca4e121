package storage_test

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/storage"
)

func FuzzValidName(f *testing.F) {
	for _, s := range []string{
		"results/f47ac10b/result.json", "a", "", "/", "a/", "a//b", "../a", "a/..", "a\\b", "a\x00", "\xff", "gs://b/o",
		".batchfleet-put-X", "uploads/日本語.pdf", strings.Repeat("x", 256), strings.Repeat("x/", 513), "a\u2028b", "a\u0085",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := storage.ValidName(name)
		if err != nil {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("ValidName(%q) = %v, want fs.ErrInvalid", name, err)
			}
			if len(err.Error()) > 600 { // 64 bytes, each quoted as four at most
				t.Errorf("error is %d bytes long: it must not repeat a long name", len(err.Error()))
			}
			return
		}
		if len(name) > storage.MaxNameLength || !utf8.ValidString(name) || !fs.ValidPath(name) || name == "." ||
			path.Clean("/"+name) != "/"+name || strings.ContainsAny(name, "\\\x00\r\n\t") ||
			strings.Contains(name, ".batchfleet-put-") && strings.HasPrefix(path.Base(name), ".batchfleet-put-") {
			t.Errorf("ValidName accepts %q", name)
		}
	})
}
