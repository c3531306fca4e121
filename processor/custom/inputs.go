package custom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
)

// inputsOf returns the objects that a job reads.
func inputsOf(job jobs.Job) []string {
	if job.Input != "" {
		return []string{job.Input}
	}
	return job.Inputs
}

// fetch copies the inputs of the job into a directory that the program can only read.
func (a *Attempt) fetch(ctx context.Context) error {
	left := a.Kind.MaxInput
	taken := map[string]bool{}
	for n, object := range inputsOf(a.Job) {
		name := path.Base(object)
		if taken[name] {
			name = strconv.Itoa(n+1) + "-" + name
		}
		taken[name] = true
		file := filepath.Join(a.Dir.Input, name)
		in, err := a.fetchOne(ctx, object, file, left)
		if err != nil {
			return err
		}
		left -= in.Size
		a.inputs, a.Inputs = append(a.inputs, in), append(a.Inputs, file)
	}
	if err := os.Chmod(a.Dir.Input, 0o500); err != nil {
		return unavailable(err)
	}
	return nil
}

func (a *Attempt) fetchOne(ctx context.Context, object, file string, limit int64) (artifact.Input, error) {
	src, err := a.handler.Store.Open(ctx, object)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return artifact.Input{}, &Failure{Code: "INPUT_MISSING", Final: true, Err: fmt.Errorf("open input: %w (do this worker and who submitted it use the same storage?)", err)}
	}
	if err != nil {
		return artifact.Input{}, fmt.Errorf("open input: %w", err) // which names it
	}
	defer src.Close()
	dst, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return artifact.Input{}, unavailable(err)
	}
	hash := sha256.New()
	from := &fetching{ctx: ctx, Reader: io.LimitReader(src, limit+1), progressed: func() { a.Progress(jobs.Progress{Step: "fetch", Message: "Processing started..."}) }}
	to := &localWriter{dst}
	n, err := io.Copy(io.MultiWriter(to, hash), from)
	if closed := dst.Close(); err == nil && closed != nil {
		err = unavailable(closed)
	}
	switch {
	case err != nil:
		return artifact.Input{}, fmt.Errorf("copy input %s: %w", object, err)
	case n > limit:
		return artifact.Input{}, &Failure{Code: "INPUT_TOO_LARGE", Final: true, Err: fmt.Errorf("input %s: all inputs together are larger than %d bytes (max_input of kind %s)", object, a.Kind.MaxInput, a.Kind.Name)}
	}
	return artifact.Input{Name: object, Size: n, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// localWriter marks the errors of a writer to the worker's own disk.
type localWriter struct{ io.Writer }

func (w *localWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		err = unavailable(err)
	}
	return n, err
}

// fetching ends a long copy when ctx does, and reports that data comes.
type fetching struct {
	ctx context.Context //nolint:containedctx // lives as long as one copy
	io.Reader
	progressed func()
	reported   time.Time
}

func (f *fetching) Read(b []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	if time.Since(f.reported) > 5*time.Second {
		f.reported = time.Now()
		f.progressed()
	}
	return f.Reader.Read(b)
}
