package settings

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// Leaving returns what is wrong with IDLE_EXIT and MAX_RUNTIME, of a worker with
// that JOB_TIMEOUT: 0 is off, and longest is in nanoseconds.
func Leaving(idle, runtime, job Seconds, longest int64) (wrong []error) {
	if idle != 0 {
		wrong = append(wrong, Span("IDLE_EXIT", idle, Second, 7*Day))
	}
	if shortest := int64(job) + 2*int64(worker.RuntimeMargin); runtime != 0 && (int64(runtime) < shortest || int64(runtime) > longest) {
		wrong = append(wrong, fmt.Errorf("MAX_RUNTIME is %s: must be from %s to %s, because no job is taken in the last JOB_TIMEOUT (%s) and %s of it",
			runtime.D(), time.Duration(shortest), time.Duration(longest), job.D(), worker.RuntimeMargin))
	}
	return wrong
}

// WorkerName is what people see of who runs a job: name, or the host's name and
// the process id when it is empty.
func WorkerName(name string) string {
	if name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", jobs.VisibleLine(host), os.Getpid())
}

// CheckName returns an error unless what a flag or variable says can be the name of
// a worker, which others see on terminals and pages.
func CheckName(variable, name string) error {
	switch {
	case len(name) > wire.MaxName:
		return fmt.Errorf("%s is %d bytes long, at most %d are allowed", variable, len(name), wire.MaxName)
	case !jobs.IsVisible(name):
		return fmt.Errorf("%s is %+q: it must not hold control characters, invisible formatting characters (such as right-to-left marks) or bytes that are not UTF-8", variable, name)
	}
	return nil
}

// Writable returns why no file can be made in dir, the system's place for
// temporary files when empty.
func Writable(dir string) error {
	f, err := os.CreateTemp(dir, "batchfleet-check-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
