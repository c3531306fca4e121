package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/pubsub/provider"
)

// devJobs are what dev is to do with files.
type devJobs struct {
	asked

	kind string
}

// check points the fleet to the kinds file, and returns the job that is made of each file, without its
// input. It finds all mistakes that can be found before anything is started.
func (d *devJobs) check(ctx context.Context, files []string) (jobapi.Submission, error) {
	kind, set, err := devKind(d.kindsFile, d.kind)
	if err != nil {
		return jobapi.Submission{}, program.Exit(program.Usage, err)
	}
	if len(files) == 0 && (len(d.params) > 0 || d.paramsFile != "") {
		return jobapi.Submission{}, program.Exit(program.Usage, errors.New("--param and --params are for jobs of a FILE: name one, or give the job to a fleet that runs with `batchfleet submit`"))
	}
	if err := checkFiles(files); err != nil {
		return jobapi.Submission{}, err
	}
	job := jobapi.Submission{Kind: kind}
	if job.Params, err = d.paramsOf(ctx, set.Get(jobs.Kind(kind))); err != nil {
		return jobapi.Submission{}, err
	}
	if len(files) > 0 {
		checked := job
		checked.Input = "uploads/x"
		err = (&provider.Fleet{Kinds: set}).Check(ctx, checked)
	}
	return job, flagged(err)
}

// devKind points the fleet to the kinds file and returns the kind of its jobs, empty for the workers'
// default, and all kinds that there are beside the built-in ones.
func devKind(file, kind string) (string, *kinds.Set, error) {
	if file != "" {
		if err := os.Setenv("KINDS_FILE", file); err != nil {
			return "", nil, err
		}
	}
	env := &own.Env{File: os.Getenv("KINDS_FILE")}
	all, err := env.Open()
	if err != nil {
		return "", nil, err
	}
	set, err := readKinds(env)
	if err != nil {
		return "", nil, err
	}
	names := []string{"pdf", "mock"}
	for _, k := range all {
		names = append(names, string(k.Name))
		if string(k.Name) == kind && k.GPUs > 0 && os.Getenv("WORKER_GPUS") == "" {
			return "", nil, fmt.Errorf("jobs of kind %s hold GPUs: set WORKER_GPUS to those of this machine, such as 0,1", kind)
		}
	}
	switch {
	case kind == "" && file != "" && len(all) == 1:
		return string(all[0].Name), set, nil
	case kind != "" && !slices.Contains(names, kind):
		return "", nil, fmt.Errorf("--kind is %.40q: want %s or %s", kind, strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
	}
	return kind, set, nil
}
