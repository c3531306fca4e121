package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/scratch"
)

// Limits are what an attempt may use. Zero is the default that the comment names.
type Limits struct {
	Timeout    time.Duration // of an attempt whose request has none; 1 h
	MaxTimeout time.Duration // that a request may have; 24 h
	Grace      time.Duration // between SIGTERM and SIGKILL; 10 s

	Output   int64 // bytes of stdout and stderr together that are kept; 256 MiB
	Truncate bool  // what comes after Output is dropped; else the program is stopped

	Input        int64 // bytes of all files of a request together; 2 GiB
	ArchiveFiles int   // that a program may leave; 10 000
	ArchiveBytes int64 // that these files may have together; 2 GiB

	Disk      int64 // bytes of all files of an attempt while it runs; no limit
	Memory    int64 // bytes of all processes of an attempt: see [command.Limits]; no limit
	CPU       time.Duration
	Processes int // processes and threads at once; no limit
	OpenFiles int // that each process may have; 4096
	// Checkpoint is how many bytes a checkpoint may have that goes to another worker; none if 0.
	Checkpoint int64
	Nice       int // how far programs stand back for others on the CPU: see [command.Limits]
}

// Runner runs the programs of requests. Set the fields before Open. Its methods may be called concurrently.
type Runner struct {
	ExeDir   string // /opt/grid/exe
	JobsDir  string // /tmp/jobs; on a disk of this machine
	CacheDir string // /opt/grid/cache
	Path     string // the variable PATH of programs; /usr/local/bin:/usr/bin:/bin
	Host     string // the name of this machine in results; what the system says
	Limits   Limits

	// Kind returns the kind that an exec names, nil for none: then it is a program of ExeDir. Nil if there is no kinds file.
	Kind func(exec string) *Kind

	// Fetch writes a file that is not in the request; ctx ends when the program would be out of time. Its errors are this machine's fault, unless
	// they wrap [fs.ErrNotExist], or [errors.ErrUnsupported]: then the job fails, and so it does when the time is over. Nil to refuse such files.
	Fetch func(ctx context.Context, blob wire.Blob, to io.Writer) error
	// Store keeps an archive that is too large for a frame. The file is gone when the attempt has ended. What is said of Fetch holds for time and
	// errors. Nil to fail a job that leaves so much.
	Store func(ctx context.Context, path, name string) (wire.Blob, error)

	// StoreCheckpoint keeps a tar archive for the next attempt at a job, wherever that is. The file is gone when it has returned. Nil if checkpoints
	// stay on this machine.
	StoreCheckpoint func(ctx context.Context, path string) (wire.Blob, error)

	Log *slog.Logger

	draining chan struct{} // closed by Drain
	drained  sync.Once
	scratch  *scratch.Root
	exes     *exes
	idle     idle
	cgroups  command.Cgroups
}

// Open makes what is missing of JobsDir and deletes what dead processes have left in it. Their processes should be dead by
// then, too (command.Sweep). The error says why others could change what is in it.
func (r *Runner) Open() (err error) {
	r.init()
	if r.JobsDir, err = filepath.Abs(r.JobsDir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.JobsDir), 0o755); err != nil { //nolint:gosec // as the system has them
		return err
	}
	if r.JobsDir, err = realPath(r.JobsDir); err != nil {
		return err
	}
	if err := scratch.OwnDir(r.JobsDir); err != nil {
		return fmt.Errorf("directory of jobs: %w", err)
	}
	if r.scratch, err = scratch.Open(r.JobsDir, r.Log); err != nil {
		return fmt.Errorf("directory of checkpoints: %w", err)
	}
	if r.exes, err = openExes(r.JobsDir); err != nil {
		return errors.Join(fmt.Errorf("directory of programs: %w", err), r.scratch.Close())
	}
	r.sweep()
	return nil
}

// realPath is a path without links, of what need not be there.
func realPath(path string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

func (r *Runner) init() {
	r.ExeDir = cmp.Or(r.ExeDir, "/opt/grid/exe")
	r.JobsDir = cmp.Or(r.JobsDir, "/tmp/jobs")
	r.CacheDir = cmp.Or(r.CacheDir, "/opt/grid/cache")
	r.Path = cmp.Or(r.Path, "/usr/local/bin:/usr/bin:/bin")
	if r.Host == "" {
		r.Host, _ = os.Hostname() // it is for people
	}
	r.draining = make(chan struct{})
	l := &r.Limits
	l.Timeout = cmp.Or(l.Timeout, time.Hour)
	l.MaxTimeout = max(cmp.Or(l.MaxTimeout, 24*time.Hour), l.Timeout)
	l.Grace = cmp.Or(l.Grace, 10*time.Second)
	l.Output = cmp.Or(l.Output, 256<<20)
	l.Input = cmp.Or(l.Input, 2<<30)
	l.ArchiveFiles = cmp.Or(l.ArchiveFiles, 10_000)
	l.ArchiveBytes = cmp.Or(l.ArchiveBytes, 2<<30)
	l.OpenFiles = cmp.Or(l.OpenFiles, 4096)
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
}

// Close deletes what only this runner uses. No attempt may run any more.
func (r *Runner) Close() error {
	return errors.Join(r.idle.removeAll(), r.exes.close(), r.scratch.Close())
}

// Tend deletes every hour what dead processes have left and checkpoints without a user, until ctx ends.
func (r *Runner) Tend(ctx context.Context) {
	for jobs.Sleep(ctx, time.Hour) == nil {
		r.scratch.Sweep()
		r.sweep()
	}
}

// minFree is the part of the disk that is free, or a worker takes no jobs.
const minFree = 0.05

// Ready returns why no job should be taken: there is little space on the disk. It is for worker.Checks.
func (r *Runner) Ready(context.Context) error {
	free, all, err := disk.Space(r.JobsDir)
	if err == nil && float64(free) < minFree*float64(all) {
		return fmt.Errorf("%w: the disk of %s has %d MB free, less than %d %%", jobs.ErrUnavailable, r.JobsDir, free/1e6, int(100*minFree))
	}
	return nil // where it cannot be told, jobs fail with no_space
}
