package scratch

import (
	"log/slog"
	"os"
	"testing"
)

// BenchmarkAttempt compares the directories of an attempt that leaves nothing with one bare directory.
func BenchmarkAttempt(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		root := b.TempDir()
		for b.Loop() {
			dir, err := os.MkdirTemp(root, "") //nolint:usetesting // it is what is measured
			if err != nil {
				b.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("attempt", func(b *testing.B) {
		r, err := Open(b.TempDir(), slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			d, err := r.Attempt("job-1", 1)
			if err != nil {
				b.Fatal(err)
			}
			if err := d.WriteParams([]byte("{}")); err != nil {
				b.Fatal(err)
			}
			d.Remove()
		}
	})
}
