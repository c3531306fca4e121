package storagetest

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

func put(t *testing.T, s storage.Store, name string, r io.Reader) {
	t.Helper()
	if err := s.Put(t.Context(), name, r); err != nil {
		t.Fatalf("Put(%q): %v", name, err)
	}
}

// read does not end the test on failure: it is called from several goroutines.
func read(t *testing.T, s storage.Store, name string) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), name)
	if err != nil {
		t.Errorf("Open(%q): %v", name, err)
		return nil
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Errorf("read %q: %v", name, err)
	}
	return b
}

func wantAbsent(t *testing.T, s storage.Store, name string) {
	t.Helper()
	if _, err := s.Stat(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat(%q) = %v, want fs.ErrNotExist", name, err)
	}
}

// wantUnchanged checks that the object is still old, or absent if old is empty.
func wantUnchanged(t *testing.T, s storage.Store, name, old string) {
	t.Helper()
	if old == "" {
		wantAbsent(t, s, name)
	} else if got := string(read(t, s, name)); got != old {
		t.Errorf("the failed Put changed %q to %d bytes", name, len(got))
	}
}

func wantLeaseLost(t *testing.T, method string, err error) {
	t.Helper()
	if !errors.Is(err, jobs.ErrLeaseLost) || errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("%s with a canceled context = %v, want its cause", method, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// noise returns size bytes that are different in every call.
func noise(size int) []byte {
	b := make([]byte, size)
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	_, _ = rand.NewChaCha8(seed).Read(b) // never fails
	return b
}
