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

// devKinds is which kinds dev runs.
type devKinds struct {
	set     *kinds.Set
	kind    jobs.Kind   // of the jobs that it makes; empty for the workers' default
	leftOut []jobs.Kind // of the kinds file: it does not need them, or their programs are not installed
	missing []jobs.Kind // those whose programs are not installed
}

// chooseKinds points the fleet to the kinds file, and returns what dev runs: with files only the kind of
// their jobs. Its error is a mistake in the command line or in the kinds file.
func chooseKinds(file, kind string, withFiles bool) (devKinds, error) {
	chosen := devKinds{kind: jobs.Kind(kind)}
	err := useKindsFile(file)
	if err != nil {
		return chosen, err
	}
	chosen.set, err = readKinds(&own.Env{File: os.Getenv("KINDS_FILE")})
	if err != nil {
		return chosen, err
	}
	set := chosen.set
	wrong := set.Executables(os.Getenv("PATH"))
	names := each(set.Kinds, func(k *kinds.Kind) string { return string(k.Name) })
	known := append([]string{"pdf", "mock"}, names...)
	switch {
	case kind == "" && file != "" && len(names) == 1:
		chosen.kind = set.Kinds[0].Name
	case kind == "" && file != "" && withFiles && os.Getenv("PROCESSOR") == "":
		return chosen, severalKinds(file, set, "these files")
	case kind != "" && len(names) == 0 && !slices.Contains(known, kind):
		return chosen, fmt.Errorf("--kind is %.40q: want pdf or mock, or with --kinds (or KINDS_FILE) a file that has this kind", kind)
	case kind != "" && !slices.Contains(known, kind):
		return chosen, fmt.Errorf("--kind is %.40q: want %s", kind, someNames(known, " or "))
	}
	for _, k := range set.Kinds {
		isMissing := k.Path == "" && !k.IsOwn()
		switch {
		case k.Name == chosen.kind && isMissing:
			return chosen, programOf(k, wrong)
		case k.Name == chosen.kind && k.GPUs > 0 && os.Getenv("WORKER_GPUS") == "":
			return chosen, fmt.Errorf("jobs of kind %s hold GPUs: set WORKER_GPUS to those of this machine, such as 0,1", k.Name)
		case isMissing:
			chosen.missing = append(chosen.missing, k.Name)
		}
		if isMissing || withFiles && k.Name != chosen.kind {
			chosen.leftOut = append(chosen.leftOut, k.Name)
		}
	}
	return chosen, nil
}

// severalKinds says that a kind must be named. A file without kinds has none to name.
func severalKinds(file string, set *kinds.Set, what string) error {
	if len(set.Kinds) == 0 {
		return fmt.Errorf("%s has no kinds: docs/kinds.md says how to write one", oneLine(file))
	}
	return fmt.Errorf("%s has %d kinds: name with --kind the one for %s, such as --kind %s", oneLine(file), len(set.Kinds), what, set.Kinds[0].Name)
}

// programOf returns why there is no program of a kind, by what Executables has found.
func programOf(k *kinds.Kind, found error) error {
	if all, ok := errors.AsType[*kinds.FileError](found); ok {
		for _, m := range all.Mistakes {
			if m.Key == string(k.Name)+".command" {
				return errors.New(m.String())
			}
		}
	}
	return found
}

// note says which kinds do not run because their programs are missing, and is empty if there are none.
func (d *devKinds) note() string {
	if len(d.missing) == 0 {
		return ""
	}
	return fmt.Sprintf("without %s: programs are not installed, `batchfleet kinds check %s` tells which",
		someNames(each(d.missing, func(k jobs.Kind) string { return string(k) }), " and "), os.Getenv("KINDS_FILE"))
}

// someNames lists names, with last before the last of them, and at most 12.
func someNames(names []string, last string) string {
	const most = 12
	if len(names) > most {
		names = append(names[:most:most], fmt.Sprintf("%d others", len(names)-most))
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + last + names[len(names)-1]
}

// job returns the job that is made of each file, without its input. It finds all mistakes that can be
// found before anything is started.
func (d *devKinds) job(ctx context.Context, a *asked, files []string) (jobapi.Submission, error) {
	if len(files) == 0 && (len(a.params) > 0 || a.paramsFile != "") {
		return jobapi.Submission{}, program.Exit(program.Usage, errors.New("--param and --params are for jobs of a FILE: name one, or give the job to a fleet that runs with `batchfleet submit`"))
	}
	if err := checkFiles(files); err != nil {
		return jobapi.Submission{}, err
	}
	job := jobapi.Submission{Kind: string(d.kind)}
	var err error
	if job.Params, err = a.paramsOf(ctx, d.set.Get(d.kind)); err != nil {
		return jobapi.Submission{}, err
	}
	if len(files) > 0 {
		checked := job
		checked.Input = anyUpload
		err = (&provider.Fleet{KindsFile: func() *kinds.Set { return d.set }}).Check(ctx, checked)
	}
	return job, flagged(err)
}
