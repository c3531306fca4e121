// Package storagetest holds the promises of [storage.Store] as tests. Every
// implementation passes the same suite.
package storagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Run runs the suite. Every test calls open for an empty store of its own.
func Run(t *testing.T, open func(t *testing.T) storage.Store) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, storage.Store)
	}{
		{"what is put can be opened", roundTrip},
		{"K-19: content can be read from an offset on", fromOffset},
		{"unusual names are kept apart", unusualNames},
		{"bad names are refused by every method", badNames},
		{"an absent object is fs.ErrNotExist", absent},
		{"an object can be replaced", replace},
		{"a deleted object is absent and may be put again", deletes},
		{"a reader that fails leaves the old object", failingReader},
		{"a canceled context leaves the old object", canceled},
		{"F-24: what is not held at the last moment leaves the old object", notHeld},
		{"an open object stays as it was", openStays},
		{"concurrent puts never mix", neverMixed},
		{"a walk shows each object once", walkShowsAll},
		{"a walk is of one directory", walkOfOneDirectory},
		{"a walk may delete what it is shown", walkDeletes},
		{"a walk goes on while others put and delete", walkAmongOthers},
		{"a walk ends with its visitor or its context", walkEnds},
		{"the check of a healthy store succeeds", healthy},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func roundTrip(t *testing.T, s storage.Store) {
	t.Helper()
	for _, size := range []int{
		0, 1, 300, 256<<10 - 1, 256 << 10, 256<<10 + 1, // around the unit of an upload
		4 << 20, 20_000_000,
	} {
		name, want := fmt.Sprintf("results/job-%d/result.json", size), noise(size)
		before := time.Now().Add(-time.Minute) // clocks differ
		// OneByteReader would take long for the large ones; a reader that
		// returns data with its EOF is the other odd kind.
		if err := s.Put(t.Context(), name, iotest.DataErrReader(bytes.NewReader(want))); err != nil {
			t.Fatalf("Put of %d bytes: %v", size, err)
		}
		if got := read(t, s, name); !bytes.Equal(got, want) {
			t.Errorf("put %d bytes, got %d bytes back or different ones", size, len(got))
		}
		info, err := s.Stat(t.Context(), name)
		if err != nil || info.Size != int64(size) {
			t.Errorf("Stat of %d bytes = %+v, %v", size, info, err)
		}
		if info.Modified.Before(before) || info.Modified.After(time.Now().Add(time.Minute)) {
			t.Errorf("Stat says the object was put at %v, it is %v", info.Modified, time.Now())
		}
	}
	put(t, s, "slow", iotest.OneByteReader(strings.NewReader("one by one")))
	if got := read(t, s, "slow"); string(got) != "one by one" {
		t.Errorf("got %q", got)
	}
}

// fromOffset is for stores that promise it.
func fromOffset(t *testing.T, s storage.Store) {
	t.Helper()
	r, ok := s.(storage.Ranger)
	if !ok {
		t.Skip("this store opens objects at their beginning alone")
	}
	content := noise(300_000)
	if err := s.Put(t.Context(), "results/a/artifacts/x.bin", bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int{0, 1, 262_144, len(content) - 1} {
		body, err := r.OpenAt(t.Context(), "results/a/artifacts/x.bin", int64(offset))
		if err != nil {
			t.Fatalf("offset %d: %v", offset, err)
		}
		got, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil || !bytes.Equal(got, content[offset:]) {
			t.Errorf("offset %d: %d bytes, %v; want the last %d", offset, len(got), err, len(content)-offset)
		}
	}
	if _, err := r.OpenAt(t.Context(), "results/a/artifacts/none", 7); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no object: %v, want ErrNotExist", err)
	}
	if _, err := r.OpenAt(t.Context(), "../x", 7); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("of a bad name: %v, want ErrInvalid", err)
	}
}

func unusualNames(t *testing.T, s storage.Store) {
	t.Helper()
	names := unusual()
	for _, name := range names {
		put(t, s, name, strings.NewReader("content of "+name))
	}
	for _, name := range names {
		if got := string(read(t, s, name)); got != "content of "+name {
			t.Errorf("object %q holds %q", name, got)
		}
	}
}

// unusual returns names that a store might take for others.
func unusual() []string {
	return []string{
		"a", "A b c.pdf", "tricky/%2F", "tricky/%2f", "tricky/%252F", "tricky/100%", "tricky/a+b", "tricky/a b", "tricky/a%20b",
		"uploads/日本語 ファイル.pdf", "uploads/Ünïcödé", "uploads/U\u0308ni\u0308co\u0308de\u0301", "emoji/🙂",
		"marks/#?&=;,:@!$'()*[]{}|^~`\"<>", "dots/...", "dots/.hidden", "dots/a..b", "trailing/space ", "trailing/dot.",
		"gs:", "C:/x", "-rf", "~", strings.Repeat("s", storage.MaxSegmentLength),
		strings.Repeat("deep/", 200) + "end",
		strings.Repeat(strings.Repeat("x", 203)+"/", 5) + "wide", // 1024 bytes
	}
}

func badNames(t *testing.T, s storage.Store) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{
		"", ".", "..", "/", "//", "/etc/passwd", "/a", "a/", "a//b", "./a", "../a", "a/.", "a/..", "a/./b", "a/../b", "a/b/../../../c",
		"../../../../etc/passwd", `a\b`, `..\a`, `C:\a`, "a\x00b", "a\nb", "a\rb", "a\tb", "a\x1b[0m", "a\x7f", "a\u0085b",
		"\xff\xfe", "a/\xc3\x28", strings.Repeat("x", storage.MaxSegmentLength+1), strings.Repeat("x/", 512) + "x",
		".well-known/acme-challenge/x", ".batchfleet-put-XYZ", "a/.batchfleet-put-XYZ", "a/.batchfleet-put-/b",
		"gs://", "gs:///x", "gs://nobodys-bucket/x", "gs://nobodys-bucket/../x",
	} {
		_, openErr := s.Open(ctx, name)
		_, statErr := s.Stat(ctx, name)
		for method, err := range map[string]error{
			"Open": openErr, "Stat": statErr,
			"Put": s.Put(ctx, name, strings.NewReader("x")), "Delete": s.Delete(ctx, name),
		} {
			if !errors.Is(err, fs.ErrInvalid) || errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("%s(%.40q) = %v, want fs.ErrInvalid", method, name, err)
			} else if len(err.Error()) > 300 {
				t.Errorf("%s(%.40q): the error is %d bytes long", method, name, len(err.Error()))
			}
		}
	}
}

func absent(t *testing.T, s storage.Store) {
	t.Helper()
	put(t, s, "dir/object", strings.NewReader("x"))
	for _, name := range []string{"absent", "absent/too", "dir", "dir/absent", "dir/object/below"} {
		_, openErr := s.Open(t.Context(), name)
		_, statErr := s.Stat(t.Context(), name)
		for method, err := range map[string]error{"Open": openErr, "Stat": statErr} {
			if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("%s(%q) = %v, want fs.ErrNotExist", method, name, err)
			}
		}
		if err := s.Delete(t.Context(), name); err != nil {
			t.Errorf("Delete(%q) = %v, want nil", name, err)
		}
	}
	if got := string(read(t, s, "dir/object")); got != "x" {
		t.Errorf("the object beside the deleted ones is %q now", got)
	}
}

func replace(t *testing.T, s storage.Store) {
	t.Helper()
	for i, size := range []int{1000, 3, 1 << 20, 0, 600 << 10, 300} {
		want := noise(size)
		put(t, s, "object", bytes.NewReader(want))
		if got := read(t, s, "object"); !bytes.Equal(got, want) {
			t.Errorf("put no. %d: got %d bytes, want %d", i+1, len(got), size)
		}
	}
}

func deletes(t *testing.T, s storage.Store) {
	t.Helper()
	for range 3 {
		put(t, s, "a/b/c/object", strings.NewReader("x"))
		put(t, s, "a/other", strings.NewReader("y"))
		if err := s.Delete(t.Context(), "a/b/c/object"); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, s, "a/b/c/object")
		if got := string(read(t, s, "a/other")); got != "y" {
			t.Errorf("the other object is %q now", got)
		}
	}
}

func failingReader(t *testing.T, s storage.Store) {
	t.Helper()
	broken := errors.New("source broke")
	for _, size := range []int{0, 10, 300 << 10, 9 << 20} {
		for _, failure := range []error{broken, io.ErrUnexpectedEOF, fs.ErrNotExist} {
			for _, old := range []string{"", "old content"} {
				name := fmt.Sprintf("object-%d-%v-%v", size, failure, old != "")
				if old != "" {
					put(t, s, name, strings.NewReader(old))
				}
				err := s.Put(t.Context(), name, io.MultiReader(bytes.NewReader(noise(size)), iotest.ErrReader(failure)))
				if !errors.Is(err, failure) || errors.Is(err, jobs.ErrUnavailable) {
					t.Errorf("Put = %v, want the reader's %v", err, failure)
				}
				wantUnchanged(t, s, name, old)
			}
		}
	}
}

func canceled(t *testing.T, s storage.Store) {
	t.Helper()
	for _, size := range []int{0, 10, 300 << 10, 9 << 20} {
		for _, old := range []string{"", "old content"} {
			name := fmt.Sprintf("object-%d-%v", size, old != "")
			if old != "" {
				put(t, s, name, strings.NewReader(old))
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			lost := readerFunc(func([]byte) (int, error) {
				cancel(jobs.ErrLeaseLost)
				return 0, io.EOF
			})
			err := s.Put(ctx, name, io.MultiReader(bytes.NewReader(noise(size)), lost))
			wantLeaseLost(t, "Put", err)
			wantUnchanged(t, s, name, old)

			_, openErr := s.Open(ctx, name)
			_, statErr := s.Stat(ctx, name)
			wantLeaseLost(t, "Open", openErr)
			wantLeaseLost(t, "Stat", statErr)
			wantLeaseLost(t, "Delete", s.Delete(ctx, name))
			wantLeaseLost(t, "Check", s.Check(ctx))
			wantUnchanged(t, s, name, old)
		}
	}
	// An endless source must not be read on.
	ctx, cancel := context.WithCancelCause(t.Context())
	left := 64 << 20
	endless := readerFunc(func(p []byte) (int, error) {
		cancel(jobs.ErrLeaseLost)
		if left -= len(p); left < 0 {
			return 0, errors.New("the canceled Put goes on reading")
		}
		return len(p), nil
	})
	wantLeaseLost(t, "endless Put", s.Put(ctx, "endless", endless))

	put(t, s, "read", bytes.NewReader(noise(9<<20)))
	ctx, cancel = context.WithCancelCause(t.Context())
	r, err := s.Open(ctx, "read")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	cancel(jobs.ErrLeaseLost)
	_, err = io.Copy(io.Discard, r)
	wantLeaseLost(t, "Read", err)
}

// An attempt learns only at the end of a Put that its job is lost.
func notHeld(t *testing.T, s storage.Store) {
	t.Helper()
	for _, size := range []int{10, 300 << 10, 9 << 20} {
		for _, old := range []string{"", "old content"} {
			for _, lost := range []error{jobs.ErrLeaseLost, jobs.ErrUnavailable} {
				name := fmt.Sprintf("dir/object-%d-%v-%v", size, old != "", lost)
				if old != "" {
					put(t, s, name, strings.NewReader(old))
				}
				read := false
				ctx := jobs.WithHold(t.Context(), func(context.Context) error {
					if read {
						return lost
					}
					return nil
				})
				end := readerFunc(func([]byte) (int, error) {
					read = true
					return 0, io.EOF
				})
				if err := s.Put(ctx, name, io.MultiReader(bytes.NewReader(noise(size)), end)); !errors.Is(err, lost) {
					t.Errorf("Put = %v, want %v", err, lost)
				}
				wantUnchanged(t, s, name, old)
			}
		}
	}
}

func openStays(t *testing.T, s storage.Store) {
	t.Helper()
	old := noise(3 << 20)
	put(t, s, "object", bytes.NewReader(old))
	r, err := s.Open(t.Context(), "object")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	got := make([]byte, 10)
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	put(t, s, "object", strings.NewReader("new"))
	rest, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(append(got, rest...), old) {
		t.Errorf("read %d bytes, %v; want the %d bytes of the object that was opened", 10+len(rest), err, len(old))
	}
}

func neverMixed(t *testing.T, s storage.Store) {
	t.Helper()
	// Content that is its own proof: a hash, then what it is of. The sizes make
	// both small and large uploads.
	content := func(size int) []byte {
		b := noise(size)
		sum := sha256.Sum256(b)
		return append(sum[:], b...)
	}
	whole := func(b []byte) bool {
		return len(b) >= sha256.Size && sha256.Sum256(b[sha256.Size:]) == [sha256.Size]byte(b[:sha256.Size])
	}
	put(t, s, "dir/object", bytes.NewReader(content(10)))

	var writers, readers sync.WaitGroup
	written := make(chan struct{})
	for i := range 4 {
		writers.Go(func() {
			for j := range 10 {
				if err := s.Put(t.Context(), "dir/object", bytes.NewReader(content((i*10+j)%3*200_000))); err != nil {
					t.Errorf("concurrent Put: %v", err)
				}
			}
		})
		readers.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
				}
				if b := read(t, s, "dir/object"); !whole(b) {
					t.Errorf("read a mixture or a part: %d bytes", len(b))
				}
				// Deleting beside it must not take the directory away.
				if err := s.Delete(t.Context(), fmt.Sprintf("dir/%d", i)); err != nil {
					t.Errorf("concurrent Delete: %v", err)
				}
				if err := s.Put(t.Context(), fmt.Sprintf("dir/%d/x", i), strings.NewReader("x")); err != nil {
					t.Errorf("Put beside: %v", err)
				}
				if err := s.Delete(t.Context(), fmt.Sprintf("dir/%d/x", i)); err != nil {
					t.Errorf("Delete beside: %v", err)
				}
			}
		})
	}
	writers.Wait()
	close(written)
	readers.Wait()
}

func healthy(t *testing.T, s storage.Store) {
	t.Helper()
	for range 2 {
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("Check = %v", err)
		}
	}
}
