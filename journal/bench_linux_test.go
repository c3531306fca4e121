package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What 100 small messages come to.
const publishBytes = 20_000

// BenchmarkAppendSync appends and syncs, one after the other and from many at
// once, beside what the disk can do: the same bytes written and synced.
func BenchmarkAppendSync(b *testing.B) {
	record := bytes.Repeat([]byte("x"), publishBytes)
	b.Run("one", func(b *testing.B) {
		j, _ := open(b, b.TempDir())
		for b.Loop() {
			if err := j.Commit(b.Context(), j.Append(record), true); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	})
	b.Run("disk", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "file"))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for b.Loop() {
			if _, err := f.Write(record); err != nil {
				b.Fatal(err)
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	})
	b.Run("32 at once", func(b *testing.B) {
		j, _ := open(b, b.TempDir())
		b.SetParallelism(16) // times GOMAXPROCS
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := j.Commit(b.Context(), j.Append(record), true); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	})
	b.Run("32 at once without sync", func(b *testing.B) {
		j, _ := open(b, b.TempDir())
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := j.Commit(b.Context(), j.Append(record), false); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	})
}
