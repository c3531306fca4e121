// Command bench measures what the specification puts a number on. It prints one
// table for each section:
//
//	go -C bench run . [section...]
//
// A limit is measured in the same run as what it is the limit of, in turns, so
// that a busy machine slows both: trust the ratios more than the rates. Numbers
// of a server come from a server in a process of its own, which is this program
// once more.
//
// It is a module of its own, so that what only it needs is no requirement of
// batchfleet. It runs in its own directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// A section measures one part of the project.
type section struct {
	name, about string
	run         func(context.Context, *report) error
}

var sections = []section{
	{"emulator", "the Pub/Sub emulator, driven over loopback by plain gRPC stubs", emulatorSection},
	{"fleet", "a whole worker: emulator, real Redis, local disk, each a process of its own; mock jobs of zero pages", fleetSection},
	{"recovery", "100 workers killed with default settings, beside one that is slow; five minutes", recoverySection},
	{"gateway", "a gateway on a real Redis, each a process of its own, and what it is compared with", gatewaySection},
	{"programs", "a program that does nothing, as jobs of a kind, in this process", programsSection},
	{"programlog", "programs that write much: 1 GiB, and 10 000 lines/s each; in this process, with a real Redis", programLogSection},
	{"kindsfile", "what a kinds file of 1 000 kinds adds to the start of a worker, in this process", kindsFileSection},
	{"noop", "jobs that do nothing, 32 at once, beside asynq, BullMQ and Celery: emulator, real Redis and worker, each a process of its own", noopSection},
	{"batches", "jobs that do nothing, through a gateway in batches, one by one, and beside asynq; each a process of its own", batchSection},
	{"agents", "jobs that do nothing, on eight workers of a gateway beside asynq; each a process of its own", agentsSection},
	{"joblog", "logs of the Job API: 200 jobs that write 10 000 lines/s each, in this process", joblogSection},
	{"jobevents", "the events of one job that changes ten times a second, for 2 000 listeners, and a bare handler of the same", jobEventsSection},
	{"joblist", "pages of the list of jobs, with and without a filter, on a real Redis", jobListSection},
	{"relay", "a relay, a process of its own, beside synced files, curl and nginx (Debian nginx-light); needs 12 GB of disk", relaySection},
	{"grid", "the grid: leader, worker, client and NATS, each a process of its own, but for the client", gridSection},
	{"pdf", "the PDF reader against pdftotext and mutool, over the corpus of bench/corpus/gather.sh", pdfSection},
}

// servers are what this program can be instead of a bench, by its first
// argument. They end with ctx.
var servers = map[string]func(ctx context.Context) error{
	"serve-emulator":         serveEmulator,
	"serve-emulator-on-disk": serveEmulatorOnDisk,
	"serve-pstest":           servePstest,
	"serve-bare-gateway":     serveBareGateway,
	"serve-jobevents":        serveJobEvents,
	"work-asynq":             workAsynq,
	"hang-asynq":             hangAsynq,
	"serve-grid":             serveGrid,
	"serve-conns":            serveConns,
	"serve-nats":             serveNATS,
	"answer-nats":            answerNATS,
	"work-grid-programs":     workGridPrograms,
	"work-grid-null":         workGridNull,
	"read-pdf":               servePDF,
	"write-flood":            writeFlood,
	"write-quiet":            writeQuiet,
	"write-paced":            writePaced,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if serve, ok := servers[args[0]]; ok {
			return serve(ctx)
		}
	}
	wanted, err := choose(sections, args, func(s section) string { return s.name })
	if err != nil {
		return err
	}
	var missed []string
	for _, s := range wanted {
		r := &report{name: s.name, about: s.about}
		if err := s.measure(ctx, r); err != nil {
			return fmt.Errorf("section %s: %w", s.name, err)
		}
		if err := r.print(os.Stdout); err != nil {
			return err
		}
		missed = append(missed, r.missed()...)
	}
	if len(missed) > 0 {
		return errors.New("below the bar: " + strings.Join(missed, ", "))
	}
	return nil
}

// measure runs a section, which may leave files in the report's directory.
func (s section) measure(ctx context.Context, r *report) (err error) {
	if r.dir, err = os.MkdirTemp("", "batchfleet-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	return s.run(ctx, r)
}

// choose returns those of all, sections or parts of one, that are named, or all when
// none is named.
func choose[T any](all []T, names []string, nameOf func(T) string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []T
	for _, name := range names {
		i := slices.IndexFunc(all, func(v T) bool { return nameOf(v) == name })
		if i < 0 {
			return nil, fmt.Errorf("no section or part %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
