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

// Leaving returns what is wrong with MAX_RUNTIME, of a worker with that JOB_TIMEOUT: 0 is off.
func Leaving(runtime, job Seconds, longest time.Duration) error {
	if shortest := job.D() + 2*worker.RuntimeMargin; runtime != 0 && (runtime.D() < shortest || runtime.D() > longest) {
		return fmt.Errorf("MAX_RUNTIME is %s: must be from %s to %s, because no job is taken in the last JOB_TIMEOUT (%s) and %s of it",
			runtime, shortest, longest, job, worker.RuntimeMargin)
	}
	return nil
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
