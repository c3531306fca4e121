package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A .env without a writer holds up the start, and SIGTERM ends that.
func TestEnvFileThatIsAPipeDoesNotOutlastSIGTERM(t *testing.T) {
	c := batchfleet(t, nil, "version")
	c.Dir = t.TempDir()
	pipe := filepath.Join(c.Dir, ".env")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), c.Start()); err != nil {
		t.Fatal(err)
	}
	over := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
	defer over.Stop()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) { // until it reads
		w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			defer w.Close()
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // how it ends is looked at
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", c.ProcessState)
	}
}

func TestNamesOfFilesInErrorsAreVisible(t *testing.T) {
	said, err := batchfleet(t, nil, "token", "list", "--file", "a\x1b[2J\u202e").CombinedOutput()
	if err == nil || !strings.Contains(string(said), `a\x1b[2J\u202e`) || strings.ContainsAny(string(said), "\x1b\u202e") {
		t.Errorf("got %q, %v", said, err)
	}
}
