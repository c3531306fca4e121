package scratch_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

// file makes a file to copy to.
func file(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "input"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestK05FetchCopiesAndCounts(t *testing.T) {
	dst := file(t)
	n, sum, err := scratch.Fetch(t.Context(), dst, strings.NewReader("the input"), 9, func() {})
	if want := "65d1a0fe71d083171eb4a5662f92b5a29e061bc5f563411a6dc38dce2f14141c"; err != nil || n != 9 || sum != want {
		t.Errorf("copied %d bytes, %s (%v), want 9, %s", n, sum, err, want)
	}
	if text, err := os.ReadFile(dst.Name()); err != nil || string(text) != "the input" {
		t.Errorf("the copy is %q (%v)", text, err)
	}
	if _, err := dst.Write(nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the copy is still open: %v", err)
	}
}

func TestK05FetchTellsWhoseFaultAnErrorIs(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrCanceled)
	closed := file(t)
	closed.Close()
	torn := errors.New("torn")
	for _, tt := range []struct {
		name string
		ctx  context.Context //nolint:containedctx // of one case
		dst  *os.File
		src  io.Reader
		want error
	}{
		{"one byte too many", t.Context(), file(t), strings.NewReader("0123456789"), scratch.ErrTooLarge},
		{"the store breaks off", t.Context(), file(t), iotest.ErrReader(torn), torn},
		{"the attempt has ended", canceled, file(t), strings.NewReader("x"), jobs.ErrCanceled},
		{"the disk of the worker", t.Context(), closed, strings.NewReader("x"), jobs.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := scratch.Fetch(tt.ctx, tt.dst, tt.src, 9, func() {})
			if !errors.Is(err, tt.want) || errors.Is(err, jobs.ErrUnavailable) != errors.Is(tt.want, jobs.ErrUnavailable) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestF16ErrorsOfTheWorkersDiskAreMarked(t *testing.T) {
	if _, err := scratch.Writer(full{}).Write([]byte("x")); !errors.Is(err, jobs.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %v, want ErrUnavailable for a full disk", err)
	}
}

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestK05FetchTellsThatDataComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		if _, _, err := scratch.Fetch(t.Context(), file(t), &slow{reads: 20}, 100, func() { told++ }); err != nil || told != 3 {
			t.Errorf("told %d times in 20 s that data comes (%v), want 3", told, err)
		}
	})
}

// slow yields a byte a second.
type slow struct{ reads int }

func (s *slow) Read(b []byte) (int, error) {
	if s.reads--; s.reads < 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	b[0] = 'x'
	return 1, nil
}
