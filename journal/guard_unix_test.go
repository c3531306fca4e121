//go:build unix

package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/journal"
)

func openIn(dir string) error {
	j, err := journal.Open(dir, retrying, func([]byte) error { return nil })
	if err == nil {
		err = j.Close()
	}
	return err
}

func TestE09LockIsNotOpenedThroughALink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	if err := openIn(dir); err == nil || !strings.Contains(err.Error(), "a symbolic link") {
		t.Errorf("open: %v, want that it is a symbolic link", err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("the file behind the link holds %q, %v", b, err)
	}
}

func TestE09DirectoryThatOthersMayWriteIsRefused(t *testing.T) {
	for mode, refused := range map[os.FileMode]bool{0o700: false, 0o755: false, 0o775: true, 0o702: true, 0o777 | os.ModeSticky: true} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		err := openIn(dir)
		if !refused && err != nil || refused && (err == nil || !strings.Contains(err.Error(), "chmod 700 "+dir)) {
			t.Errorf("open of a directory of mode %v: %v", mode, err)
		}
	}
}
