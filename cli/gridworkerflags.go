package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/grid/exec"
	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// gridWorkerFlags are the flags of batchfleet grid worker, and its arguments.
type gridWorkerFlags struct {
	leaders []string
	pattern string
	peer    gridPeer

	exeDir, jobsDir, cacheDir, dir string
	path, metricsAddr, kinds       string
	drain, keepRunning             time.Duration
	limits                         exec.Limits
}

func (f *gridWorkerFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.exeDir, "exe-dir", "/opt/grid/exe", "where the programs are, as EXEC.exe")
	flags.StringVar(&f.kinds, "kinds", "", "kinds file: its kinds are execs, too, and are read again at SIGHUP; KINDS_FILE when empty")
	flags.StringVar(&f.jobsDir, "jobs-dir", "/tmp/jobs", "where each job has a directory while it runs; on a disk of this machine that lets programs run")
	flags.StringVar(&f.cacheDir, "cache-dir", "/opt/grid/cache", "files that jobs name by their CacheId")
	flags.StringVar(&f.dir, "dir", "./grid_worker", "for results until their leader has them; each worker takes a directory of its own in it")
	flags.StringVar(&f.path, "path", "/usr/local/bin:/usr/bin:/bin", "variable PATH of the programs, which get nothing else of this environment")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "where to serve /metrics, beside /healthz and /readyz, without credentials")
	flags.DurationVar(&f.drain, "drain-timeout", 8*time.Second, "how long jobs may go on after SIGTERM; those that have not ended then are handed back")
	flags.DurationVar(&f.keepRunning, "keep-running", 10*time.Minute, "how long jobs go on when the connection to their leader is lost")
	l := &f.limits
	flags.DurationVar(&l.Timeout, "timeout", time.Hour, "time limit of a job that has none of its own")
	flags.DurationVar(&l.MaxTimeout, "max-timeout", 24*time.Hour, "longest time limit that a job may ask for")
	flags.DurationVar(&l.Grace, "kill-grace", 10*time.Second, "between SIGTERM and SIGKILL for a program")
	flags.Int64Var(&l.Output, "max-output", 256<<20, "bytes that a program may write to stdout and stderr; with more it is stopped")
	flags.BoolVar(&l.Truncate, "truncate-output", false, "drop what is beyond --max-output, and let the program go on")
	flags.Int64Var(&l.Input, "max-input", 2<<30, "bytes of the files that a job is given")
	flags.IntVar(&l.ArchiveFiles, "max-files", 10_000, "files that a program may leave in its directory")
	flags.Int64Var(&l.ArchiveBytes, "max-archive", 2<<30, "bytes of the files that a program may leave in its directory")
	flags.Int64Var(&l.Disk, "max-disk", 0, "bytes of all files of a job while it runs, and of each; no limit when 0")
	flags.Int64Var(&l.Memory, "max-memory", 0, "bytes of all processes of a job together; no limit when 0")
	flags.DurationVar(&l.CPU, "max-cpu", 0, "CPU time of each process of a job; no limit when 0")
	flags.IntVar(&l.Processes, "max-processes", 0, "processes and threads of a job at once; no limit when 0")
	flags.IntVar(&l.OpenFiles, "max-open-files", 4096, "open files of each process of a job")
	flags.IntVar(&l.Nice, "nice", 0, "how much lower the priority of programs on the CPU is, up to 19: it is added to the niceness of this worker")
	flags.Int64Var(&l.Checkpoint, "max-checkpoint", 16<<20, "bytes of a checkpoint that goes to another worker, when this one stops or a failed attempt is made again; none when 0")
	if err := c.MarkFlagFilename("kinds", "toml"); err != nil {
		panic(err) // there is no such flag
	}
	f.peer.register(flags)
}

// workerUsage is which arguments a worker takes.
const workerUsage = "HOST PORT [PATTERN], or HOST:PORT[,HOST:PORT…] [PATTERN]"

// arguments reads [workerUsage].
func (f *gridWorkerFlags) arguments(args []string) (err error) {
	if len(args) > 1 && isPort(args[1]) {
		var addr string
		addr, err = joinLeader(args[0], args[1])
		f.leaders, args = []string{addr}, args[2:]
	} else {
		if !strings.Contains(args[0], ":") {
			return errors.New("PORT is missing: want " + workerUsage)
		}
		f.leaders, err = leaderList(args[0])
		args = args[1:]
	}
	switch {
	case err != nil:
		return err
	case len(args) > 1:
		return fmt.Errorf("%.40q is one argument too many: want %s", args[1], workerUsage)
	case len(args) == 1:
		f.pattern = args[0]
	}
	if strings.TrimSpace(f.pattern) == "" {
		f.pattern = wire.DefaultPattern
	}
	if err := subject.CheckPattern(f.pattern); err != nil {
		return fmt.Errorf("PATTERN: %w; want one for subjects of jobs, such as job.assign.* or job.assign.gpu.>", err)
	}
	if !matchesJobs(f.pattern) {
		return fmt.Errorf("PATTERN is %q, and matches no job: the subject of a job is job.assign.EXEC, so want one such as job.assign.* or job.assign.gpu.>", f.pattern)
	}
	return nil
}

// matchesJobs reports whether a pattern matches the subjects of some jobs, job.assign.EXEC.
func matchesJobs(pattern string) bool {
	tokens := strings.SplitN(pattern, ".", 3)
	for i, want := range []string{"job", "assign"} {
		switch {
		case i == len(tokens):
			return false
		case tokens[i] == ">":
			return true
		case tokens[i] != "*" && tokens[i] != want:
			return false
		}
	}
	return len(tokens) == 3
}

// check returns all that is wrong with the flags.
func (f *gridWorkerFlags) check() error {
	var wrong []error
	if f.metricsAddr != "" {
		wrong = append(wrong, settings.CheckListen("--metrics-addr", f.metricsAddr, "127.0.0.1:9090"))
	}
	for _, d := range []struct{ flag, is string }{{"--exe-dir", f.exeDir}, {"--jobs-dir", f.jobsDir}, {"--cache-dir", f.cacheDir}, {"--dir", f.dir}} {
		if d.is == "" {
			wrong = append(wrong, fmt.Errorf("%s is empty: name a directory", d.flag))
		}
	}
	const day = 24 * time.Hour
	for _, d := range []struct {
		flag           string
		is, from, upTo time.Duration
	}{
		{"--drain-timeout", f.drain, 0, day},
		{"--keep-running", f.keepRunning, time.Second, 7 * day},
		{"--timeout", f.limits.Timeout, time.Second, 30 * day},
		{"--max-timeout", f.limits.MaxTimeout, f.limits.Timeout, 30 * day},
		{"--kill-grace", f.limits.Grace, time.Millisecond, time.Hour},
		{"--max-cpu", f.limits.CPU, 0, 30 * day},
	} {
		if d.is < d.from || d.is > d.upTo {
			wrong = append(wrong, fmt.Errorf("%s is %s: must be from %s to %s", d.flag, d.is, d.from, d.upTo))
		}
	}
	return errors.Join(append(wrong, checkNumbers(
		flagNumber{"--max-output", f.limits.Output, 1, 1 << 40},
		flagNumber{"--max-input", f.limits.Input, 1, 1 << 44},
		flagNumber{"--max-files", int64(f.limits.ArchiveFiles), 1, 1_000_000},
		flagNumber{"--max-archive", f.limits.ArchiveBytes, 1, 1 << 44},
		flagNumber{"--max-disk", f.limits.Disk, 0, 1 << 50},
		flagNumber{"--max-memory", f.limits.Memory, 0, 1 << 44},
		flagNumber{"--max-processes", int64(f.limits.Processes), 0, 1_000_000},
		flagNumber{"--max-open-files", int64(f.limits.OpenFiles), 16, 1_000_000},
		flagNumber{"--max-checkpoint", f.limits.Checkpoint, 0, 1 << 32},
		flagNumber{"--nice", int64(f.limits.Nice), 0, 19},
	)...)...)
}

// ownDir returns the nth directory for results of a worker of these leaders. A worker of other leaders must not use it: it would deliver the
// results to its own leaders.
func (f *gridWorkerFlags) ownDir(n int) string {
	name := strings.NewReplacer(":", "_", "[", "", "]", "", "%", "_").Replace(strings.Join(f.leaders, ","))
	if len(name) > 100 {
		name = fmt.Sprintf("%s-%x", name[:80], sha256.Sum256([]byte(name)))[:97]
	}
	return filepath.Join(f.dir, fmt.Sprintf("%s-%d", name, n))
}
