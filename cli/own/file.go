package own

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/term"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/metrics"
)

// File is the kinds file of a long-running process. It is read again at each SIGHUP. Set and Use may be
// called concurrently.
type File struct {
	env      *Env
	programs bool
	log      *slog.Logger

	set   atomic.Pointer[kinds.Set]
	mu    sync.Mutex // held while the set changes and users are told
	users []func(*kinds.Set)

	hangups   chan os.Signal // nil without a file
	terminals []int          // which of stdin, stdout and stderr are one; none if SIGHUP was ignored
}

// OpenFile reads the kinds file. With programs true, a program that is not installed is a mistake, too:
// a process that runs jobs needs them. If there is a file, SIGHUP no longer ends the process.
func OpenFile(env *Env, programs bool, log *slog.Logger) (*File, error) {
	f := &File{env: env, programs: programs, log: log}
	if env.File != "" {
		if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
			f.terminals = slices.DeleteFunc([]int{0, 1, 2}, func(fd int) bool { return !term.IsTerminal(fd) })
		}
		f.hangups = make(chan os.Signal, 1)
		signal.Notify(f.hangups, syscall.SIGHUP)
	}
	set, err := f.read()
	if err != nil {
		return nil, err
	}
	f.set.Store(set)
	return f, nil
}

func (f *File) read() (*kinds.Set, error) {
	set, err := f.env.Set()
	if err == nil && f.programs {
		err = set.Executables(os.Getenv("PATH"))
	}
	return set, err
}

// Set returns the kinds as they are now.
func (f *File) Set() *kinds.Set { return f.set.Load() }

// mayHaveKinds reports whether there are kinds, or may be some when the file is read again.
func (f *File) mayHaveKinds() bool { return f.env.File != "" || len(f.Set().Kinds) > 0 }

// Use calls use with the kinds: now, and each time the file was read again. Calls are made one at a time.
func (f *File) Use(use func(*kinds.Set)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users = append(f.users, use)
	use(f.Set())
}

// Run reads the file again at each SIGHUP until ctx ends, and counts in registry how often. If there is
// a mistake in the file, the kinds stay as they are. After the terminal has gone SIGHUP ends the process.
func (f *File) Run(ctx context.Context, registry prometheus.Registerer) {
	if f.hangups == nil {
		return
	}
	defer signal.Stop(f.hangups)
	reads := metrics.In(registry, "batchfleet_").Counters("kinds_file_reads_total", "Times that the kinds file was read again, by whether it was taken or had mistakes.", "result")
	taken, refused := reads.WithLabelValues("taken"), reads.WithLabelValues("refused")
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.hangups:
		}
		if f.hungUp() { // the terminal has gone: end, as a process without a kinds file does
			signal.Reset(syscall.SIGHUP)
			_ = syscall.Kill(os.Getpid(), syscall.SIGHUP)
			return
		}
		if f.readAgain(ctx) {
			taken.Inc()
		} else {
			refused.Inc()
		}
	}
}

// readAgain reads the file, and reports whether the kinds are those of it now.
func (f *File) readAgain(ctx context.Context) bool {
	set, err := f.read()
	if err != nil {
		f.log.ErrorContext(ctx, "the kinds file has mistakes, and the kinds stay as they are", "file", f.env.File, "err", err)
		return false
	}
	c := set.ChangesSince(f.Set())
	f.mu.Lock()
	f.set.Store(set)
	for _, use := range f.users {
		use(set)
	}
	f.mu.Unlock()
	log := f.log.With("file", f.env.File, "kinds", len(set.Kinds))
	for what, which := range map[string][]jobs.Kind{"added": c.Added, "removed": c.Removed, "changed": c.Changed} {
		if len(which) > 0 {
			log = log.With(what, which)
		}
	}
	log.InfoContext(ctx, "the kinds file was read again")
	return true
}

// hungUp reports whether the terminal from which this process was started has gone.
func (f *File) hungUp() bool {
	return slices.ContainsFunc(f.terminals, func(fd int) bool { return !term.IsTerminal(fd) })
}
