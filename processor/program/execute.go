package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/processor/custom"
	"github.com/batchfleet/batchfleet/processor/output"
	"github.com/batchfleet/batchfleet/scratch"
)

const (
	// logName is the artifact with the whole log of a program.
	logName = "log.txt"
	// lineBytes is the longest line of a log; what is longer is cut.
	lineBytes = 64 << 10
	// grace is how long a program that is told to stop may go on. A worker that is out of time
	// waits for half a second, so then it is less.
	grace        = 5 * time.Second
	drainedGrace = 300 * time.Millisecond
	// openFiles is how many files each process may have open.
	openFiles = 4096
	// processes is how many processes and threads a run may have at once.
	processes = 4096
)

// Runner runs programs. Environ is what they are given beside their own variables, as NAME=value: PATH,
// and what the kind passes on.
type Runner struct{ Environ []string }

// run is one run of a program.
type run struct {
	*custom.Attempt
	dir        *scratch.Dir
	checkpoint string // its directory
}

// Do runs the kind's program to its end. It is the work of a [custom.Handler].
func (p Runner) Do(ctx context.Context, attempt *custom.Attempt) error {
	a := run{Attempt: attempt}
	var err error
	if a.dir, err = attempt.Dir(); err != nil {
		return err
	}
	if a.checkpoint, err = attempt.Checkpoint(); err != nil {
		return err
	}
	if err := a.dir.WriteParams(a.Params); err != nil {
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	}
	argv, err := a.Kind.Argv(a.values())
	if err != nil {
		return &custom.Failure{Code: "INVALID_PARAMS", Final: true, Err: err}
	}
	reader := &output.Reader{Log: a.Log, Progress: a.progress, Pattern: a.Kind.Progress}
	if a.Kind.KeepLog {
		// Beside the directory of outputs, where the program does not look.
		log, err := os.OpenFile(filepath.Join(filepath.Dir(a.dir.Params), logName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
		}
		defer log.Close()
		reader.Text, reader.TextLimit = log, a.Kind.Disk
		a.Artifacts = map[string]string{logName: log.Name()}
	}
	line, oom, said := reader.Line, a.oomPatterns(), recent{}
	if len(oom) > 0 {
		line = func(stream command.Stream, line []byte, cut bool) error {
			if stream == command.Stderr {
				said.add(line)
			}
			return reader.Line(stream, line, cut)
		}
	}
	a.Progress(jobs.Progress{Step: "run", Message: "Running " + string(a.Kind.Name), Logged: true}) // it would come behind the first lines
	c := command.Command{
		Path: a.Kind.Path, Args: argv[1:], Dir: a.dir.Work, Env: append(a.env(), p.Environ...),
		Stdin: bytes.NewReader(a.Params), Output: line, Overwritten: reader.Overwritten,
		Limits: command.Limits{
			TotalMemory: a.Kind.Memory, CPU: a.Kind.CPU, FileBytes: a.Kind.Disk, OpenFiles: openFiles, LineBytes: lineBytes,
			Disk: a.Kind.Disk, Processes: processes,
		},
		DiskUsage: func() (int64, error) {
			used, err := a.dir.Usage(a.checkpoint)
			return used.Bytes, err
		},
		GraceOf: func(cause error) time.Duration {
			if errors.Is(cause, jobs.ErrDrained) {
				return drainedGrace
			}
			return grace
		},
	}
	_, err = c.Run(ctx)
	if kept := reader.Close(); err == nil && kept != nil {
		err = fmt.Errorf("%w: %w", jobs.ErrUnavailable, kept)
	}
	if err != nil {
		return a.ended(err, reader.Last(), said.has(oom))
	}
	return nil
}

// values are what the placeholders of the kind's command stand for.
func (a run) values() kinds.Values {
	return kinds.Values{
		Input:  a.Inputs,
		Output: a.dir.Output, Work: a.dir.Work, Checkpoint: a.checkpoint, Params: a.dir.Params,
		Param: a.Params, JobID: a.Job.ID, Attempt: a.Number,
	}
}

// env is the environment of the program. Nothing else is inherited.
func (a run) env() []string {
	in := ""
	switch len(a.Inputs) {
	case 0:
	case 1:
		in = a.Inputs[0]
	default:
		in = a.dir.Input
	}
	env := append([]string{},
		"HOME="+a.dir.Work, "TMPDIR="+a.dir.Work, "LANG=C.UTF-8",
		"BATCHFLEET_JOB_ID="+string(a.Job.ID), "BATCHFLEET_KIND="+string(a.Kind.Name), "BATCHFLEET_ATTEMPT="+strconv.Itoa(a.Number),
		"BATCHFLEET_INPUT="+in, "BATCHFLEET_OUTPUT="+a.dir.Output, "BATCHFLEET_CHECKPOINT="+a.checkpoint, "BATCHFLEET_PARAMS="+a.dir.Params,
		"CUDA_VISIBLE_DEVICES="+gpuList(a.Slot.GPUs),
	)
	if !a.Deadline.IsZero() {
		env = append(env, "BATCHFLEET_DEADLINE="+a.Deadline.UTC().Format(time.RFC3339))
	}
	if a.Job.Trace != "" {
		env = append(env, "TRACEPARENT="+a.Job.Trace)
	}
	return env
}

// gpuList is the list of GPUs as CUDA reads it; none at all when it is empty.
func gpuList(gpus []int) string {
	var list []string
	for _, gpu := range gpus {
		list = append(list, strconv.Itoa(gpu))
	}
	return strings.Join(list, ",")
}

// progress reports how far the program is.
func (a run) progress(p jobs.Progress) {
	p.Step = "run"
	if p.Message == "" {
		p.Message = "Running " + string(a.Kind.Name)
	}
	a.Progress(p)
}

// ended returns the failure behind the end of the program; last is the last line that it has
// written to stderr, and oom whether it has said that the memory of its GPU is used up.
func (a run) ended(err error, last string, oom bool) error {
	exit := new(command.ExitError)
	if !errors.As(err, &exit) {
		return err
	}
	if oom && exit.Reason == command.OverMemory && exit.Signal != syscall.SIGKILL {
		// Without a cgroup, package command goes by the same message, which is about the GPU.
		exit.Reason, exit.Limit = command.Exited, ""
		if exit.Signal != 0 {
			exit.Reason = command.Signaled
		}
	}
	f := &custom.Failure{Code: "PROGRAM_FAILED", Detail: exit.Stderr}
	if oom && (exit.Reason == command.Exited || exit.Reason == command.Signaled) {
		f.Code = "GPU_OOM"
	}
	what := exit.Reason.String()
	switch exit.Reason {
	case command.Exited:
		what = fmt.Sprintf("exit %d", exit.Code)
		f.Final, f.Again = a.Kind.IsFinal(exit.Code), a.Kind.IsRetry(exit.Code)
	case command.Signaled:
		what = fmt.Sprintf("signal %d (%s)", exit.Signal, exit.Signal)
	case command.OverMemory:
		f.Code = "OUT_OF_MEMORY"
	case command.OverDisk:
		f.Code = "DISK_LIMIT"
	case command.OverCPU, command.OverWall, command.OverOutput, command.OverProcesses:
		f.Code = "LIMIT_EXCEEDED"
	}
	if exit.Limit != "" {
		what += " (limit: " + exit.Limit + ")"
	}
	if last != "" {
		what += ": " + last
	}
	f.Err = errors.New(what)
	return f
}
