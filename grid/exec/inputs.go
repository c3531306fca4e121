package exec

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// writeFiles writes the files of the request into the work directory.
func (a *attempt) writeFiles(ctx context.Context) error {
	left := a.Limits.Input
	for _, f := range a.Request.Files {
		n, err := a.writeFile(ctx, f, left)
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

func (a *attempt) writeFile(ctx context.Context, f wire.InputFile, limit int64) (int64, error) {
	dst, err := a.work.root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, ownDisk(err)
	}
	to := &input{to: dst, left: limit, ctx: ctx}
	switch {
	case f.CacheID != nil:
		err = a.copyCached(to, *f.CacheID)
	case f.Blob != nil:
		err = a.fetch(ctx, to, *f.Blob)
	default:
		_, err = to.Write(f.Content)
	}
	if closed := dst.Close(); err == nil && closed != nil {
		err = ownDisk(closed)
	}
	if to.err != nil { // whatever became of it since
		err = to.err
	}
	if errors.Is(err, errInputTooLarge) {
		return 0, rejected("the files are larger than %d bytes together", a.Limits.Input)
	}
	if end := new(failed); errors.As(err, &end) {
		return 0, &failed{end.reason, fmt.Sprintf("file %q: %s", f.Name, end.message)}
	}
	if err != nil {
		return 0, fmt.Errorf("write file %q: %w", f.Name, err)
	}
	return limit - to.left, nil
}

var errInputTooLarge = errors.New("input is too large")

// input is a file that is being written. It keeps the first error.
type input struct {
	to   io.Writer
	left int64           // how many bytes more it may have
	ctx  context.Context //nolint:containedctx // lives as long as one copy
	err  error
}

func (w *input) Write(p []byte) (int, error) {
	switch {
	case w.err != nil:
	case w.ctx.Err() != nil:
		w.err = context.Cause(w.ctx)
	case int64(len(p)) > w.left:
		w.err = errInputTooLarge
	default:
		n, err := w.to.Write(p)
		w.left -= int64(n)
		w.err = ownDisk(err)
		return n, w.err
	}
	return 0, w.err
}

// copyCached copies a file of the cache.
func (a *attempt) copyCached(to io.Writer, id string) error {
	src, err := a.openCached(id)
	if err != nil {
		return err
	}
	defer src.Close()
	if _, err = io.Copy(to, src); err != nil {
		return unavailable(err)
	}
	return nil
}

func (a *attempt) openCached(id string) (*os.File, error) {
	dir, err := os.OpenRoot(a.CacheDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, rejected("--cache-dir %s of the worker is not there", a.CacheDir)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	defer dir.Close()
	src, err := openRegular(dir, id)
	if err != nil {
		return nil, rejected("no file %q in %s (%v)", id, a.CacheDir, withoutPath(err))
	}
	return src, nil
}

var errNotRegular = errors.New("not a regular file")

// openRegular opens a regular file. It does not wait for what is none, such as a pipe.
func openRegular(dir *os.Root, name string) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return f, nil
}

// fetch gets a file from elsewhere, and makes sure that it is the right one.
func (a *attempt) fetch(ctx context.Context, to io.Writer, blob wire.Blob) error {
	if a.Fetch == nil {
		return rejected("this worker has no storage for files that are not in the request")
	}
	counted := &counter{to: to, hash: sha256.New()}
	within, cancel := a.transferTime(ctx)
	defer cancel()
	err := a.Fetch(within, blob, counted)
	switch {
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		return &failed{wire.ReasonError, fmt.Sprintf("blob %s has not come within %s: %v", blob.SHA256, a.timeout(), err)}
	case errors.Is(err, errors.ErrUnsupported):
		return &failed{wire.ReasonError, fmt.Sprintf("fetch blob %s: %v", blob.SHA256, err)}
	case errors.Is(err, fs.ErrNotExist):
		return rejected("the storage has no blob %s", blob.SHA256)
	case err != nil:
		return unavailable(fmt.Errorf("fetch blob %s: %w", blob.SHA256, err))
	case counted.n != blob.Size || counted.sum() != blob.SHA256:
		return unavailable(fmt.Errorf("blob %s has arrived with %d bytes and digest %s, must be %d bytes", blob.SHA256, counted.n, counted.sum(), blob.Size))
	}
	return nil
}

// transferTime bounds how long a transfer may take: as long as the program may run.
func (a *attempt) transferTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.timeout())
}

// counter counts and hashes what goes to a writer.
type counter struct {
	to   io.Writer
	hash hash.Hash
	n    int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	_, _ = c.hash.Write(p[:n]) // never fails
	return n, err
}

func (c *counter) sum() string { return hex.EncodeToString(c.hash.Sum(nil)) }

// isAsGiven reports whether a file has the content still that it was given.
func (a *attempt) isAsGiven(file io.Reader, given wire.InputFile) (bool, error) {
	switch {
	case given.Blob != nil:
		c := &counter{to: io.Discard, hash: sha256.New()}
		_, err := io.Copy(c, file)
		return c.sum() == given.Blob.SHA256, err
	case given.CacheID != nil:
		src, err := a.openCached(*given.CacheID)
		if err != nil {
			return false, nil // it is not there any more: so what is here may be of use
		}
		defer src.Close()
		return equal(file, src)
	}
	return equal(file, bytes.NewReader(given.Content))
}

// equal reports whether two readers have the same content.
func equal(a, b io.Reader) (bool, error) {
	var bufs [2][32 << 10]byte
	for {
		n, errA := io.ReadFull(a, bufs[0][:])
		m, errB := io.ReadFull(b, bufs[1][:])
		if n != m || !bytes.Equal(bufs[0][:n], bufs[1][:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			return true, notEnd(errA, errB)
		}
	}
}

// notEnd is the first error that is not the end of a reader.
func notEnd(errs ...error) error {
	for _, err := range errs {
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { //nolint:errorlint // of io.ReadFull
			return err
		}
	}
	return nil
}

// unavailable marks an error of this machine, which is not the job's fault.
func unavailable(err error) error { return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err) }
