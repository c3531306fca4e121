// Package program is what every program of this project does around its command:
// it runs it, ends at a signal, logs, answers health checks and returns an exit code.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/joho/godotenv"
	"github.com/spf13/cobra"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// The exit codes beside 0, as docs/cli.md lists them.
const (
	Failed      = 1 // a job failed, or a check found something wrong
	Usage       = 2 // wrong arguments or configuration
	Unavailable = 3 // a service could not be reached
	Interrupted = 130
)

// ExitError carries an exit code.
type ExitError struct {
	Code int
	Err  error // nil when all has been said
}

// Exit returns err, which may be nil, as an [ExitError].
func Exit(code int, err error) error { return ExitError{Code: code, Err: err} }

// Error returns the text of Err.
func (e ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e ExitError) Unwrap() error { return e.Err }

// Coded gives an error of a command the exit code that says what kind it is.
func Coded(ctx context.Context, err error) error {
	var has ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &has):
		return err
	case ctx.Err() != nil:
		return Exit(Interrupted, errors.New("interrupted"))
	case errors.Is(err, worker.ErrRefused): // what it asks for is not there, or not for it
		return Exit(Usage, err)
	case errors.Is(err, jobs.ErrUnavailable):
		return Exit(Unavailable, err)
	default:
		return Exit(Failed, err)
	}
}

// Run executes one command line and returns its exit code. The first SIGINT or
// SIGTERM asks the command to end, the second ends the process. hint returns what
// to say when a service that a command needs cannot be reached or refuses it, as its error
// tells, empty for nothing; it may be nil.
func Run(root *cobra.Command, args []string, hint func(*cobra.Command, error) string) int {
	name := root.Name() + ":"
	// Before signals are caught: it may be a pipe, which some keepers of passwords
	// make of it, and wait for good.
	if err := loadFile(); err != nil {
		fmt.Fprintln(os.Stderr, name, "read .env:", jobs.Visible(err.Error()))
		return Usage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root.SetArgs(args)
	refuseUnknown(root, args)
	explainArgs(root)
	root.SetFlagErrorFunc(wrongFlag)
	ctx, endTraces := traced(ctx, root, args)
	defer endTraces()
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	coded := ExitError{}
	if !errors.As(err, &coded) { // the command line itself is wrong
		err = missingFlags(err)
		if text := err.Error(); !strings.Contains(text, "--help") && !strings.Contains(text, "do you mean") {
			err = fmt.Errorf("%w; `%s --help` says how", err, cmd.CommandPath())
		}
		coded = ExitError{Usage, err}
	}
	if said(err) {
		// What is unavailable is in the rest of the text. Names of files, say, may be odd.
		text := strings.ReplaceAll(err.Error(), jobs.ErrUnavailable.Error()+": ", "")
		fmt.Fprintln(os.Stderr, name, jobs.Visible(text))
	}
	if hint != nil && (coded.Code == Unavailable || errors.Is(err, worker.ErrRefused)) {
		if do := hint(cmd, err); do != "" {
			fmt.Fprintln(os.Stderr, name, do)
		}
	}
	return coded.Code
}

// said reports whether an error has anything to say: not if it is an exit code alone.
func said(err error) bool {
	coded, bare := err.(ExitError) //nolint:errorlint // one that is wrapped has a text
	return !bare || coded.Err != nil
}

// fromFile are the variables that the file .env has set.
var fromFile = map[string]bool{}

// FromFile reports whether a variable was set by the file .env, and not by the environment.
func FromFile(name string) bool { return fromFile[name] }

// loadFile sets what the file .env says and the environment does not.
func loadFile() error {
	file, err := godotenv.Read()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for name, value := range file {
		if os.Getenv(name) != "" { // empty means not set, as for settings
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		fromFile[name] = true
	}
	return nil
}

// SecondSignal returns a channel that is closed when SIGINT or SIGTERM has come
// twice from now on. The one after that ends the process.
func SecondSignal() <-chan struct{} {
	// Registered before the first one: there is no moment between the two in which
	// the second would end the process.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	second := make(chan struct{})
	go func() { // left behind when the process ends before
		<-signals
		<-signals
		signal.Stop(signals)
		close(second)
	}()
	return second
}
