//go:build unix

package pdf_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfleet/batchfleet/pdf"
)

func TestF70OpenFileDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pdf.OpenFile(path, pdf.Options{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
