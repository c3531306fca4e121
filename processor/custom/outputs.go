package custom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/safefile"
)

// store stores the outputs and then the result.
func (a *Attempt) store(ctx context.Context) (jobs.Result, error) {
	names, err := a.outputs()
	if err != nil {
		if errors.Is(err, jobs.ErrUnavailable) {
			return jobs.Result{}, err
		}
		f := &Failure{Code: "OUTPUT_INVALID", Err: err}
		errors.As(err, &f)
		return jobs.Result{}, f
	}
	r := artifact.Result{JobID: a.Job.ID, Kind: string(a.Kind.Name), Attempt: a.Number, Inputs: a.inputs}
	for _, name := range names {
		file, ok := a.Artifacts[name]
		if !ok {
			file = a.output(name)
		}
		stored, err := a.storeOne(ctx, name, file)
		if err != nil {
			return jobs.Result{}, err
		}
		r.Artifacts = append(r.Artifacts, stored)
	}
	r.Seconds = math.Round(time.Since(a.began).Seconds()*100) / 100
	return artifact.Finish(ctx, a.handler.Store, r, a.handler.Inline)
}

func (a *Attempt) storeOne(ctx context.Context, name, file string) (artifact.Artifact, error) {
	f, err := safefile.Open(file)
	if err != nil {
		return artifact.Artifact{}, unavailable(err)
	}
	defer f.Close()
	report := func() { a.Progress(jobs.Progress{Done: 1, Total: 1, Step: "store", Message: "Storing " + name}) }
	report()
	return artifact.Put(ctx, a.handler.Store, a.Job.ID, name, f, report)
}

// output is the file of an output, of an attempt that has a directory.
func (a *Attempt) output(name string) string { return filepath.Join(a.places.dir.Output, name) }

// outputs returns the names of the files that the program has left and that are kept, in order. The
// program has ended, so they do not change any more.
func (a *Attempt) outputs() ([]string, error) {
	found := make([]bool, len(a.Kind.Outputs))
	names, err := a.listOutputs(found)
	if err != nil {
		return nil, err
	}
	for i, there := range found {
		if !there {
			return nil, &Failure{Code: "OUTPUT_MISSING", Err: fmt.Errorf("there is no output %s: the program has left no such file in {output}", a.Kind.Outputs[i])}
		}
	}
	names = slices.AppendSeq(names, maps.Keys(a.Artifacts))
	slices.Sort(names)
	return names, nil
}

// listOutputs is outputs, of those in the directory. It notes which patterns they match.
func (a *Attempt) listOutputs(found []bool) (names []string, err error) {
	if a.places.dir == nil {
		return nil, nil
	}
	if info, err := os.Lstat(a.places.dir.Output); err != nil || !info.IsDir() {
		return nil, errors.New("{output} is no directory any more: the program has deleted or replaced it")
	}
	dir, err := os.Open(a.places.dir.Output)
	if err != nil {
		return nil, unavailable(err)
	}
	defer dir.Close()
	var size int64
	for {
		entries, err := dir.ReadDir(100)
		for _, entry := range entries {
			name := entry.Name()
			if !a.isOutput(name, found) {
				continue
			}
			n, err := a.checkOutput(name)
			if err != nil {
				return nil, err
			}
			names = append(names, name)
			size += n
			if len(names) > a.Kind.MaxFiles {
				return nil, fmt.Errorf("there are more than %d outputs (max_files of kind %s)", a.Kind.MaxFiles, a.Kind.Name)
			}
			if size > a.Kind.Disk {
				return nil, fmt.Errorf("the outputs are larger than %d bytes (disk of kind %s)", a.Kind.Disk, a.Kind.Name)
			}
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list outputs: %w", err)
		}
	}
}

// isOutput reports whether a file is to be kept, and notes the patterns that it matches.
func (a *Attempt) isOutput(name string, found []bool) bool {
	matched := len(a.Kind.Outputs) == 0
	for i, pattern := range a.Kind.Outputs {
		if ok, _ := path.Match(pattern, name); ok { // the pattern was checked
			matched, found[i] = true, true
		}
	}
	return matched
}

// checkOutput returns the size of an output, or why it cannot be kept.
func (a *Attempt) checkOutput(name string) (int64, error) {
	if err := artifact.CheckName(name); err != nil {
		return 0, err
	}
	if a.Artifacts[name] != "" {
		return 0, fmt.Errorf("output %s: this name is kept for the log (keep_log of kind %s)", name, a.Kind.Name)
	}
	f, err := safefile.Open(a.output(name))
	if err != nil {
		if info, _ := os.Lstat(a.output(name)); info != nil && info.IsDir() {
			return 0, fmt.Errorf("output %s is a directory: pack it into a file, as tar does", name)
		}
		return 0, fmt.Errorf("output %s: %w", name, errors.Unwrap(err)) // without the path on this worker
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("output %s: %w", name, err)
	}
	return info.Size(), nil
}
