package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/batchfleet/batchfleet/command"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobs"
)

// failed is how an attempt has failed. It is the job's own failure, and so ends in a result.
type failed struct {
	reason  string
	message string
}

func (f *failed) Error() string { return f.message }

func rejected(format string, args ...any) error {
	return &failed{wire.ReasonRejected, fmt.Errorf(format, args...).Error()}
}

func tooMuch(format string, args ...any) error {
	return &failed{wire.ReasonOutputLimit, fmt.Sprintf(format, args...)}
}

// ownDisk says what an error of a file of this machine is: a full disk is the job's failure, for its client is told;
// any other is the machine's. What is known already stays so.
func ownDisk(err error) error {
	switch {
	case err == nil, errors.As(err, new(*failed)), errors.Is(err, jobs.ErrUnavailable):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &failed{wire.ReasonNoSpace, fmt.Sprintf("the disk of the worker is full: %v", withoutPath(err))}
	}
	return unavailable(err)
}

// withoutPath is an error without the path of a file of this machine.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// ended says how a run has ended, by the error of command.Run.
func (a *attempt) ended(err error) error {
	exit, over := new(command.ExitError), new(outputLimitError)
	switch {
	case err == nil:
		a.result.ExitCode = new(int)
		return nil
	case errors.As(err, &exit):
		return a.exited(exit)
	case errors.As(err, &over):
		return &failed{wire.ReasonOutputLimit, over.Error()}
	case tookTooLong(err):
		return &failed{wire.ReasonTimeout, err.Error()}
	case errors.Is(err, jobs.ErrUnavailable): // the program was not tried
		return err
	case isNoProgram(err):
		return &failed{wire.ReasonError, fmt.Sprintf("exec %s cannot be started: %v", a.Request.ExecName, withoutStart(err))}
	}
	return ownDisk(err)
}

// isNoProgram reports whether a program could not be started because of what it is, or because of its arguments.
func isNoProgram(err error) bool {
	for _, e := range []error{syscall.ENOEXEC, syscall.EACCES, syscall.ENOENT, syscall.ENOTDIR, syscall.E2BIG, syscall.EINVAL, syscall.ELOOP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// withoutStart is an error of a start without the path.
func withoutStart(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// exited says how the program has ended by itself, or by a limit.
func (a *attempt) exited(e *command.ExitError) error {
	if e.Signal != 0 {
		a.result.Signal = signalName(e.Signal)
	} else {
		a.result.ExitCode = &e.Code
	}
	f := &failed{wire.ReasonExit, e.Reason.String()}
	switch e.Reason {
	case command.Exited:
		f.message = fmt.Sprintf("exit status %d", e.Code)
		if a.isFull(e.Stderr) {
			f = &failed{wire.ReasonNoSpace, f.message + ": the disk of the worker is full"}
		}
	case command.Signaled:
		f.message = fmt.Sprintf("ended by signal %d (%s)", int(e.Signal), e.Signal)
	case command.OverMemory:
		f.reason = wire.ReasonOOM
	case command.OverDisk, command.OverOutput:
		f.reason = wire.ReasonOutputLimit
	case command.OverCPU, command.OverWall:
		f.reason = wire.ReasonTimeout
	case command.OverProcesses:
		f.reason = wire.ReasonError
	}
	if e.Limit != "" {
		f.message += " (limit: " + e.Limit + ")"
	}
	return f
}

// isFull reports whether a program has failed because the disk is full: that is in its stderr, and it is true.
func (a *attempt) isFull(stderr string) bool {
	if !strings.Contains(strings.ToLower(stderr), "no space left") {
		return false
	}
	free, _, err := disk.Space(a.JobsDir)
	return err == nil && free < 1<<20
}

// isResult reports whether an attempt that has ended with err has a result.
func isResult(err error) bool {
	return err == nil || errors.As(err, new(*failed)) || tookTooLong(err)
}

// settle writes into the result how the attempt has ended, and what the program has said. It has a result with err.
func (a *attempt) settle(err error) {
	r := &a.result
	r.Status = wire.OK
	if err != nil {
		r.Status, r.Reason = wire.Failed, wire.ReasonTimeout // the worker's limit, unless it is known
		if f := new(failed); errors.As(err, &f) {
			r.Reason = f.reason
		}
		r.Message = jobs.Clip(err.Error(), maxMessage, " …")
	}
	r.Stdout, r.Stderr = a.out.stdout.text(), a.out.stderr.text()
	r.StdoutTruncated, r.StderrTruncated = !a.out.stdout.whole(), !a.out.stderr.whole()
	if r.Stderr == "" && r.ExitCode == nil && r.Signal == "" {
		r.Stderr = r.Message // other clients know no Message
	}
}

// maxMessage is how many bytes the message of a result has.
const maxMessage = 4 << 10

// MaxResult is how many bytes the JSON of a result may have: a leader passes it on to the client in a frame with a subject.
func MaxResult(clientID string) int {
	const header = 1 + 16 + 16 + 2 + 4
	return wire.MaxFrame - header - len(wire.ResultPrefix) - len(clientID) - len(".") - 2*len(wire.GUID{})
}

// Encode returns a result as JSON.
func Encode(r *wire.JobResult) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is not put into web pages, and would take six bytes for "<"
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
