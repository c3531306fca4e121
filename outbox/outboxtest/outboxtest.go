// Package outboxtest looks into the directory of a box, for tests.
package outboxtest

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"github.com/batchfleet/batchfleet/outbox"
)

// Entries returns the entries in the directory of a box by name, also while a process uses it. Files of an
// earlier version are left out.
func Entries(dir string) (entries map[string]string, err error) {
	temp, err := os.MkdirTemp("", "outboxtest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	// What the process is writing just now is the torn end of a journal, which is left out.
	if err := copyAll(filepath.Join(temp, "journal"), filepath.Join(dir, "journal")); err != nil {
		return nil, err
	}
	if err := os.Chmod(filepath.Join(temp, "journal"), 0o700); err != nil { //nolint:gosec // a directory needs the x
		return nil, err
	}
	box := &outbox.Box{Dir: temp, MaxEntry: math.MaxInt64, Sender: outbox.Sender{Log: slog.New(slog.DiscardHandler)}}
	if err := box.Open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	entries = map[string]string{}
	return entries, box.Load(context.Background(), func(name string, text []byte) error {
		entries[name] = string(text)
		return nil
	})
}

// copyAll copies a directory, and again if a file was deleted meanwhile.
func copyAll(to, from string) (err error) {
	for range 100 {
		if err = os.CopyFS(to, os.DirFS(from)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	return err
}
