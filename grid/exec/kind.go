package exec

import (
	"bytes"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/kinds"
)

// Kind is a kind of the kinds file. Its program runs where it is, in the directory of the job, with the arguments of the
// job behind those of its command. It does not change.
type Kind struct {
	*kinds.Kind
	// Environ is what the program is given beside the variables of its job, as NAME=value: PATH, and what the kind passes on.
	Environ []string
	// Unfit says why its jobs do not run here; nil if they do.
	Unfit error
}

// useKind has the attempt run the kind that its exec names, if there is one, under the limits of both.
func (a *attempt) useKind() {
	a.Limits = a.Runner.Limits
	if a.Kind == nil {
		return
	}
	k := a.Kind(a.Request.ExecName)
	if k == nil {
		return
	}
	a.kind = k
	l := &a.Limits
	if k.Timeout > 0 {
		l.Timeout, l.MaxTimeout = k.Timeout, min(k.Timeout, l.MaxTimeout)
	}
	l.Timeout = min(l.Timeout, l.MaxTimeout)
	l.Input, l.ArchiveFiles = min(l.Input, k.MaxInput), min(l.ArchiveFiles, k.MaxFiles)
	l.Disk, l.Memory, l.CPU = smaller(l.Disk, k.Disk), smaller(l.Memory, k.Memory), smaller(l.CPU, k.CPU)
}

// smaller is the smaller of two limits; 0 is none.
func smaller[T ~int64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// checkKind returns what is wrong with the request for the kind, and takes its params.
func (a *attempt) checkKind() (err error) {
	k, files := a.kind, len(a.Request.Files)
	switch {
	case k == nil && a.Request.HasParams():
		return rejected("exec %s is no kind of this worker, so it has no Params: give Args", a.Request.ExecName)
	case k == nil:
		return nil
	case k.Unfit != nil:
		return rejected("kind %s does not run on this worker: %w", k.Name, k.Unfit)
	case k.NeedsInput() && files == 0:
		return rejected("kind %s needs a file, which is {input} in its command, and the job has none", k.Name)
	case k.OneInput() && files > 1:
		return rejected("kind %s is for one file, which is {input} in its command, and the job has %d", k.Name, files)
	}
	if a.params, err = k.CheckParams(a.Request.Params); err != nil {
		return rejected("%w", err)
	}
	for i, arg := range a.args() {
		if strings.HasPrefix(arg, "-") && !k.AllowDash {
			return rejected("argument %d of Args is %.40q: kind %s takes none that begins with - (its key allow_dash)", i, arg, k.Name)
		}
	}
	return nil
}

// paramsFile is the file with the params of a kind, in the work directory.
const paramsFile = ownDir + "/params"

// asKind makes a command one of the kind.
func (a *attempt) asKind(c *command.Command, deadline time.Time) error {
	if err := a.work.root.WriteFile(paramsFile, a.params, 0o600); err != nil {
		return ownDisk(err)
	}
	v := kinds.Values{
		Output: a.work.path, Work: a.work.path, Checkpoint: a.checkpoint.Dir, Params: filepath.Join(a.work.path, paramsFile), Param: a.params, JobID: a.jobID(), Attempt: a.Number,
	}
	for _, f := range a.Request.Files {
		v.Input = append(v.Input, filepath.Join(a.work.path, f.Name))
	}
	argv, err := a.kind.Argv(v)
	if err != nil {
		return rejected("%w", err)
	}
	c.Path, c.Args, c.Stdin = a.kind.Path, append(argv[1:], a.args()...), bytes.NewReader(a.params)
	c.Env = overlay(c.Env, append(a.kindEnv(v, deadline), a.kind.Environ...))
	return nil
}

// kindEnv has what a program of a kind is told wherever it runs.
func (a *attempt) kindEnv(v kinds.Values, deadline time.Time) []string {
	in := ""
	switch len(v.Input) {
	case 0:
	case 1:
		in = v.Input[0]
	default:
		in = v.Work
	}
	return []string{
		"BATCHFLEET_JOB_ID=" + string(v.JobID), "BATCHFLEET_KIND=" + string(a.kind.Name), "BATCHFLEET_ATTEMPT=" + strconv.Itoa(v.Attempt),
		"BATCHFLEET_INPUT=" + in, "BATCHFLEET_OUTPUT=" + v.Output, "BATCHFLEET_CHECKPOINT=" + v.Checkpoint, "BATCHFLEET_PARAMS=" + v.Params,
		"BATCHFLEET_DEADLINE=" + deadline.UTC().Format(time.RFC3339), "CUDA_VISIBLE_DEVICES=",
	}
}

// overlay returns variables with others in the place of those of the same names.
func overlay(env, others []string) []string {
	given := make(map[string]bool, len(others))
	name := func(variable string) string { return variable[:strings.IndexByte(variable, '=')] }
	for _, o := range others {
		given[name(o)] = true
	}
	return append(slices.DeleteFunc(env, func(v string) bool { return given[name(v)] }), others...)
}

// keepOutputs returns those of the new files that the kind keeps, and how its program has ended: without one of the outputs it
// has failed. The file of the params goes, so that the directory can be kept for another attempt.
func (a *attempt) keepOutputs(files []entry, ended error) ([]entry, error) {
	_ = a.work.root.Remove(paramsFile) // what is left is deleted with the directory
	if len(a.kind.Outputs) == 0 {
		return files, ended
	}
	missing := slices.Clone(a.kind.Outputs)
	files = slices.DeleteFunc(files, func(f entry) bool {
		isOutput := func(pattern string) bool {
			ok, _ := path.Match(pattern, f.path) // the pattern was checked
			return ok
		}
		missing = slices.DeleteFunc(missing, isOutput)
		return !slices.ContainsFunc(a.kind.Outputs, isOutput)
	})
	if ended == nil && len(missing) > 0 {
		ended = &failed{wire.ReasonError, "there is no output " + strings.Join(missing, ", ")}
	}
	return files, ended
}

// norKind is the end of a message that there is no program.
func (a *attempt) norKind() string {
	if a.Kind == nil {
		return ""
	}
	return ", and no such kind"
}
