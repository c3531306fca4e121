package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// DemoJobs is how many jobs [Demo] submits, and demoExec is what they run.
const (
	DemoJobs = 3
	demoExec = "calcA"
)

// ErrFailed is what [Demo] returns when all jobs have a result, and not all have succeeded.
var ErrFailed = errors.New("jobs have failed")

// Demo submits DemoJobs jobs to the exec calcA, each with its number as argument and a small file input.txt, and prints their
// results as they come. The error says that the leaders cannot be used or that a job has no result, or wraps [ErrFailed].
func Demo(ctx context.Context, cfg Config, out io.Writer) error {
	m, err := New(cfg)
	if err != nil {
		return err
	}
	return m.RunWith(ctx, func(ctx context.Context) error { return m.demo(ctx, out) })
}

func (m *Multi) demo(ctx context.Context, out io.Writer) error {
	var jobs []*Job
	for n := 1; n <= DemoJobs; n++ {
		input := wire.InputFile{Name: "input.txt", Content: fmt.Appendf(nil, "input of job %d\n", n)}
		j, err := m.Submit(ctx, wire.JobRequest{ExecName: demoExec, Args: []string{fmt.Sprint(n)}, Files: []wire.InputFile{input}})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "submitted %s to %s\n", j.ID, demoExec); err != nil {
			return err
		}
		jobs = append(jobs, j)
	}
	var mu sync.Mutex
	var waiting sync.WaitGroup
	var errs []error
	failed := 0
	for _, j := range jobs {
		waiting.Go(func() {
			r, err := j.Wait(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("job %s: %w", j.ID, err))
				return
			}
			if r.Status != wire.OK {
				failed++
			}
			errs = append(errs, printResult(out, &r))
		})
	}
	waiting.Wait()
	if err := errors.Join(errs...); err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%d of %d %w", failed, len(jobs), ErrFailed)
}

// printResult prints a result for people, in one line.
func printResult(out io.Writer, r *wire.JobResult) error {
	why := ""
	if r.Reason != "" {
		why = fmt.Sprintf(" reason=%s %s", r.Reason, r.Message)
	}
	_, err := fmt.Fprintf(out, "%s %s stdout=%q stderr=%q archive=%d bytes%s\n", r.JobID, r.Status, r.Stdout, r.Stderr, len(r.OutputArchive), why)
	return err
}
