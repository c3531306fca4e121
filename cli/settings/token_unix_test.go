//go:build unix

package settings

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTokenFileThatOthersCouldHavePutThereIsRefused(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("secret-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(file, want string) {
		t.Helper()
		if token, err := ReadToken(t.Context(), file); err == nil || token != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("of %s: %q, %v, want %q", file, token, err, want)
		}
	}
	refused(pipe, "a pipe, not a regular file")
	refused(link, "a symbolic link, not a regular file")
	if err := os.Chmod(file, 0o620); err != nil {
		t.Fatal(err)
	}
	refused(file, "chmod 600 "+file)
	// Where others may only read it, the caller decides.
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(t.Context(), file); err != nil {
		t.Error(err)
	}
}
