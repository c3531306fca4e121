package scratch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// ErrTooLarge means that an input has more bytes than it may have.
var ErrTooLarge = errors.New("input is too large")

// Fetch copies an input of a job from src to dst, which it closes, and returns how many bytes it has and their
// SHA-256 in hex. It ends soon after ctx does, unless a Read of src blocks, and calls progressed every few seconds
// as long as data comes. Errors of dst wrap [jobs.ErrUnavailable]: they are not the fault of the job. With more
// than limit bytes it returns [ErrTooLarge]. After an error the caller must delete what was copied.
func Fetch(ctx context.Context, dst *os.File, src io.Reader, limit int64, progressed func()) (n int64, sum string, err error) {
	hash := sha256.New()
	n, err = io.Copy(io.MultiWriter(Writer(dst), hash), &fetching{ctx, io.LimitReader(src, limit+1), progressed, time.Now()})
	if closed := dst.Close(); err == nil && closed != nil {
		err = unavailable(closed)
	}
	if err == nil && n > limit {
		err = ErrTooLarge
	}
	return n, hex.EncodeToString(hash.Sum(nil)), err
}

// fetching ends a long copy when ctx does, and tells that data comes.
type fetching struct {
	ctx context.Context //nolint:containedctx // lives as long as one copy
	io.Reader
	progressed func()
	told       time.Time
}

func (f *fetching) Read(b []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	if time.Since(f.told) > 5*time.Second {
		f.told = time.Now()
		f.progressed()
	}
	return f.Reader.Read(b)
}

// Writer returns a writer to w, a file of this machine, whose errors wrap [jobs.ErrUnavailable].
func Writer(w io.Writer) io.Writer { return diskWriter{w} }

type diskWriter struct{ io.Writer }

func (w diskWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		err = unavailable(err)
	}
	return n, err
}

// unavailable marks an error of this machine's disk.
func unavailable(err error) error { return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err) }
