package custom

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/scratch"
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
	objects := inputsOf(a.Job)
	if len(objects) == 0 {
		return nil
	}
	dir, err := a.Dir()
	if err != nil {
		return err
	}
	left := a.Kind.MaxInput
	taken := map[string]bool{}
	for n, object := range objects {
		name := path.Base(object)
		if taken[name] {
			name = strconv.Itoa(n+1) + "-" + name
		}
		taken[name] = true
		file := filepath.Join(dir.Input, name)
		in, err := a.fetchOne(ctx, object, file, left)
		if err != nil {
			return err
		}
		left -= in.Size
		a.inputs, a.Inputs = append(a.inputs, in), append(a.Inputs, file)
	}
	if err := os.Chmod(dir.Input, 0o500); err != nil {
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
	progressed := func() { a.Progress(jobs.Progress{Step: "fetch", Message: "Processing started..."}) }
	n, sum, err := scratch.Fetch(ctx, dst, src, limit, progressed)
	switch {
	case errors.Is(err, scratch.ErrTooLarge):
		return artifact.Input{}, &Failure{Code: "INPUT_TOO_LARGE", Final: true, Err: fmt.Errorf("input %s: all inputs together are larger than %d bytes (max_input of kind %s)", object, a.Kind.MaxInput, a.Kind.Name)}
	case err != nil:
		return artifact.Input{}, fmt.Errorf("copy input %s: %w", object, err)
	}
	return artifact.Input{Name: object, Size: n, SHA256: sum}, nil
}
