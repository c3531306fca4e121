package custom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/processor/artifact"
	"github.com/batchfleet/batchfleet/safefile"
)

// store stores the outputs and then the result.
func (a *Attempt) store(ctx context.Context) (jobs.Result, error) {
	outputs, err := a.outputs()
	if err != nil {
		if errors.Is(err, jobs.ErrUnavailable) {
			return jobs.Result{}, err
		}
		f := &Failure{Code: "OUTPUT_INVALID", Err: err}
		errors.As(err, &f)
		return jobs.Result{}, f
	}
	r := artifact.Result{JobID: a.Job.ID, Kind: string(a.Kind.Name), Attempt: a.Number, Inputs: a.inputs}
	for _, o := range outputs {
		stored, err := a.storeOne(ctx, o)
		if err != nil {
			return jobs.Result{}, err
		}
		r.Artifacts = append(r.Artifacts, stored)
	}
	r.Seconds = math.Round(time.Since(a.began).Seconds()*100) / 100
	return artifact.Finish(ctx, a.handler.Store, r, a.handler.Inline)
}

func (a *Attempt) storeOne(ctx context.Context, o outputFile) (artifact.Artifact, error) {
	f, err := safefile.Open(o.path)
	if err != nil {
		return artifact.Artifact{}, unavailable(err)
	}
	defer f.Close()
	report := func() { a.Progress(jobs.Progress{Done: 1, Total: 1, Step: "store", Message: "Storing " + o.name}) }
	report()
	return artifact.Put(ctx, a.handler.Store, a.Job.ID, o.name, f, report)
}

// outputFile is a file that is to be stored.
type outputFile struct {
	name string // of the artifact
	path string
}

// isRenamed reports whether the artifact has another name than the file.
func (o outputFile) isRenamed() bool { return o.name != filepath.Base(o.path) }

// String returns the name of the file, for people.
func (o outputFile) String() string {
	if file := filepath.Base(o.path); o.isRenamed() {
		return strconv.Quote(file) // it may hold anything
	}
	return o.name
}

// outputs returns the files that the program has left and that are kept, in the order of their names. The
// program has ended, so they do not change any more.
func (a *Attempt) outputs() ([]outputFile, error) {
	found := make([]bool, len(a.Kind.Outputs))
	outputs, err := a.listOutputs(found)
	if err != nil {
		return nil, err
	}
	for i, there := range found {
		if !there {
			return nil, &Failure{Code: "OUTPUT_MISSING", Err: fmt.Errorf("there is no output %s: the program has left no such file in {output}", a.Kind.Outputs[i])}
		}
	}
	for name, file := range a.Artifacts {
		outputs = append(outputs, outputFile{name, file})
	}
	slices.SortFunc(outputs, func(x, y outputFile) int { return cmp.Compare(x.name, y.name) })
	for i, o := range outputs {
		if i > 0 && outputs[i-1].name == o.name {
			return nil, fmt.Errorf("outputs %s and %s: both would be stored as %s", outputs[i-1], o, o.name)
		}
	}
	for _, o := range outputs {
		if o.isRenamed() {
			a.Log(fmt.Sprintf("output %s is stored as %q", o, o.name))
		}
	}
	return outputs, nil
}

// listOutputs is outputs, of those in the directory. It notes which patterns they match.
func (a *Attempt) listOutputs(found []bool) (outputs []outputFile, err error) {
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
			if !a.isOutput(entry.Name(), found) {
				continue
			}
			o := a.outputFile(entry.Name())
			n, err := a.checkOutput(o)
			if err != nil {
				return nil, err
			}
			outputs = append(outputs, o)
			size += n
			if len(outputs) > a.Kind.MaxFiles {
				return nil, fmt.Errorf("there are more than %d outputs (max_files of kind %s)", a.Kind.MaxFiles, a.Kind.Name)
			}
			if size > a.Kind.Disk {
				return nil, fmt.Errorf("the outputs are larger than %d bytes (disk of kind %s)", a.Kind.Disk, a.Kind.Name)
			}
		}
		if errors.Is(err, io.EOF) {
			return outputs, nil
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

// outputFile returns an output, which is a file of this name.
func (a *Attempt) outputFile(file string) outputFile {
	o := outputFile{file, filepath.Join(a.places.dir.Output, file)}
	if a.handler.Rename {
		o.name = artifact.PortableName(file)
	}
	return o
}

// checkOutput returns the size of an output, or why it cannot be kept.
func (a *Attempt) checkOutput(o outputFile) (int64, error) {
	if err := artifact.CheckName(o.name); err != nil {
		return 0, err
	}
	if a.Artifacts[o.name] != "" {
		return 0, fmt.Errorf("output %s: this name is kept for the log (keep_log of kind %s)", o, a.Kind.Name)
	}
	f, err := safefile.Open(o.path)
	if err != nil {
		if info, _ := os.Lstat(o.path); info != nil && info.IsDir() {
			return 0, fmt.Errorf("output %s is a directory: pack it into a file, as tar does", o)
		}
		return 0, fmt.Errorf("output %s: %w", o, errors.Unwrap(err)) // without the path on this worker
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("output %s: %w", o, err)
	}
	return info.Size(), nil
}
