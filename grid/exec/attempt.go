package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

// Attempt is one attempt at a job.
type Attempt struct {
	Request wire.JobRequest
	Number  int // from 1
	// Deadline is when the attempt will be told to stop, if that is not the timeout of the request; zero for never.
	Deadline time.Time
	// Line is given the lines that the program writes, not all of a flood. It must not wait. Nil for nothing.
	Line func(line string)
}

// attempt is an Attempt that is made.
type attempt struct {
	*Runner
	Attempt
	Limits     Limits // those of the runner, and of the kind
	kind       *Kind  // nil for a program of ExeDir
	params     []byte // of the kind, with defaults
	work       *workDir
	checkpoint *scratch.Checkpoint
	travel     travel
	started    bool // the program was, or almost
	asMade     bool // the work directory is, after the end of the program
	out        outputs
	archive    spill
	result     wire.JobResult
}

// Run makes an attempt. An error means that nothing is to be recorded: it wraps [jobs.ErrUnavailable], or is the cause of
// ctx. An end of ctx because of [jobs.ErrTimeout] or [jobs.ErrStalled] is the job's own failure.
func (r *Runner) Run(ctx context.Context, a Attempt) (wire.JobResult, error) {
	q := a.Request
	x := &attempt{Runner: r, Attempt: a, result: wire.JobResult{
		JobID: q.JobID, ClientID: q.ClientID, ExecName: q.ExecName, Attempt: a.Number, Index: q.Index, ArrayID: q.ArrayID, Worker: r.Host,
	}}
	x.useKind()
	x.out = outputs{limit: r.Limits.Output, truncate: r.Limits.Truncate, temp: r.temp}
	x.out.lines.log = a.Line
	err := x.run(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !tookTooLong(cause) {
		err = cause
	}
	err = x.conclude(ctx, err)
	x.leave(ctx, err)
	if err != nil {
		return wire.JobResult{}, err
	}
	return x.result, nil
}

func tookTooLong(err error) bool {
	return errors.Is(err, jobs.ErrTimeout) || errors.Is(err, jobs.ErrStalled)
}

// run runs the program. The error is a [failed], or there is no result.
func (a *attempt) run(ctx context.Context) (err error) {
	if err := a.check(); err != nil {
		return err
	}
	if a.work, err = a.makeWorkDir(a.Request.JobID, a.exeName()); err != nil {
		return ownDisk(err)
	}
	if a.checkpoint, err = a.scratch.Checkpoint(a.jobID()); err != nil {
		return ownDisk(err)
	}
	if err := a.restore(ctx); err != nil {
		return err
	}
	if err := a.writeFiles(ctx); err != nil {
		return err
	}
	return a.execute(ctx)
}

func (a *attempt) jobID() jobs.ID { return jobs.ID(a.Request.JobID.String()) }

// exeName is the program in the work directory; empty for that of a kind, which is not there.
func (a *attempt) exeName() string {
	if a.kind != nil {
		return ""
	}
	return a.Request.ExecName + ".exe"
}

func (a *attempt) check() error {
	if err := Check(&a.Request); err != nil {
		return rejected("%w", err)
	}
	if a.timeout() > a.Limits.MaxTimeout {
		return rejected("TimeoutMs is %d, and this worker allows at most %d", a.Request.TimeoutMs, a.Limits.MaxTimeout.Milliseconds())
	}
	return a.checkKind()
}

// timeout is how long the program may run.
func (a *attempt) timeout() time.Duration {
	if ms := a.Request.TimeoutMs; ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return a.Limits.Timeout
}

// execute runs the program to its end.
func (a *attempt) execute(ctx context.Context) error {
	limit := a.timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: it did not end within %s", jobs.ErrTimeout, limit))
	defer cancel()
	deadline, _ := ctx.Deadline()
	if !a.Deadline.IsZero() && a.Deadline.Before(deadline) {
		deadline = a.Deadline
	}
	l := a.Limits
	c := command.Command{
		Path: filepath.Join(a.work.path, a.exeName()), Args: a.args(), Dir: a.work.path, Env: a.env(deadline),
		Chunk: a.out.write, Cgroups: &a.cgroups,
		Limits: command.Limits{
			TotalMemory: l.Memory, CPU: l.CPU, Processes: l.Processes, OpenFiles: l.OpenFiles, Disk: l.Disk, FileBytes: l.Disk, Nice: l.Nice,
		},
		DiskUsage: func() (int64, error) {
			used, err := scratch.Measure(a.work.path, a.checkpoint.Dir)
			return used.Bytes, err
		},
		GraceOf: a.grace,
	}
	if a.kind != nil {
		if err := a.asKind(&c, deadline); err != nil {
			return err
		}
	}
	stopSaving := a.saveWhenDraining(ctx)
	usage, err := a.start(ctx, &c)
	stopSaving()
	a.result.DurationMs = usage.Wall.Milliseconds()
	return a.ended(err)
}

// startTries is how often a program is started that something has open for writing.
const startTries = 4

// start links the program into the work directory, but for that of a kind, and runs it.
func (a *attempt) start(ctx context.Context, c *command.Command) (usage command.Usage, err error) {
	if a.kind != nil {
		if err := a.work.removeExe(); err != nil {
			return usage, ownDisk(err)
		}
		a.started = true
		return c.Run(ctx)
	}
	dir, err := os.OpenRoot(a.ExeDir)
	if errors.Is(err, fs.ErrNotExist) {
		return usage, rejected("exec %s: there is no directory %s%s", a.Request.ExecName, a.ExeDir, a.norKind())
	}
	if err != nil {
		return usage, unavailable(err)
	}
	defer dir.Close()
	for try := 1; ; try++ {
		if err := a.exes.link(dir, a.exeName(), a.work, try > 1); err != nil {
			return usage, a.noProgram(err)
		}
		a.started = true // before that the directory may have a program of a job before
		usage, err = c.Run(ctx)
		if !errors.Is(err, syscall.ETXTBSY) || try == startTries {
			return usage, err
		}
	}
}

func (a *attempt) noProgram(err error) error {
	wrong := new(programError)
	switch {
	case !errors.As(err, &wrong):
		return ownDisk(err)
	case errors.Is(err, fs.ErrNotExist):
		return rejected("exec %s: no file %s in %s%s", a.Request.ExecName, a.exeName(), a.ExeDir, a.norKind())
	}
	return rejected("exec %s: %s in %s cannot be used: %w", a.Request.ExecName, a.exeName(), a.ExeDir, withoutPath(wrong.error))
}

// drainedGrace is how long a program may go on when the worker is out of time.
const drainedGrace = 300 * time.Millisecond

func (a *attempt) grace(cause error) time.Duration {
	switch {
	case errors.As(cause, new(*outputLimitError)):
		return 0 // it would go on writing
	case errors.Is(cause, jobs.ErrDrained):
		return min(drainedGrace, a.Limits.Grace)
	}
	return a.Limits.Grace
}

// args are the arguments of the program. In those of an array {i} stands for the index.
func (a *attempt) args() []string {
	if a.Request.Index == nil {
		return a.Request.Args
	}
	args := make([]string, len(a.Request.Args))
	for i, arg := range a.Request.Args {
		args[i] = strings.ReplaceAll(arg, "{i}", strconv.FormatInt(*a.Request.Index, 10))
	}
	return args
}

// env is the environment of the program. Nothing else is inherited.
func (a *attempt) env(deadline time.Time) []string {
	env := []string{
		"PATH=" + a.Path, "HOME=" + a.work.path, "TMPDIR=" + filepath.Join(a.work.path, ownDir), "LANG=C.UTF-8",
		"GRID_JOB_ID=" + a.Request.JobID.String(), "GRID_ATTEMPT=" + strconv.Itoa(a.Number), "GRID_CLIENT_ID=" + a.Request.ClientID,
		"GRID_DEADLINE=" + deadline.UTC().Format(time.RFC3339), "GRID_CHECKPOINT_DIR=" + a.checkpoint.Dir,
	}
	if a.Request.Index != nil {
		env = append(env, "GRID_INDEX="+strconv.FormatInt(*a.Request.Index, 10))
	}
	if a.Request.Trace != "" {
		env = append(env, "TRACEPARENT="+a.Request.Trace)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Request.Env)) {
		env = append(env, name+"="+a.Request.Env[name])
	}
	return env
}

// leave gives back what the attempt had; err is what Run returns.
func (a *attempt) leave(ctx context.Context, err error) {
	a.out.close()
	a.archive.remove()
	if a.checkpoint != nil {
		if err := a.leaveCheckpoint(ctx, err); err != nil {
			a.Log.Warn("cannot delete a checkpoint", "job", a.jobID(), "err", err)
		}
	}
	if a.work != nil && (!a.started || !a.keepIdle()) {
		if err := a.work.remove(); err != nil {
			a.Log.Warn("cannot delete a work directory; it will be tried again", "job", a.jobID(), "err", err)
		}
	}
}

// leaveCheckpoint deletes the checkpoint of a job that has ended, and keeps it for a next attempt else.
func (a *attempt) leaveCheckpoint(ctx context.Context, err error) error {
	again := err != nil && !errors.Is(err, jobs.ErrCanceled) || slices.Contains(a.Request.RetryOn, a.result.Reason)
	if again {
		a.saveLast(ctx, err)
		a.checkpoint.Close()
		return nil
	}
	return a.checkpoint.Delete()
}
