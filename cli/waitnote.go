package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// queuedPatience is how long a job that is waited for may be queued until it is looked, once, whether
// there is anything that would run it.
const queuedPatience = 5 * time.Second

// whyQueued says why no worker of the fleet takes jobs of a kind, which may be empty, and what to do
// about it. It says nothing if one does, and if that cannot be found out.
func whyQueued(ctx context.Context, st *status.Store, kind jobs.Kind) string {
	since, err := st.Draining(ctx)
	if err == nil && since != "" {
		return "the fleet is drained, so its workers take no jobs: `batchfleet run start` lets them; waiting"
	}
	workers, err := st.Workers(ctx)
	if err != nil {
		return ""
	}
	for _, w := range workers {
		if state := w.State(); (state == "idle" || state == "working") && (kind == "" || slices.Contains(w.Kinds, kind)) {
			return ""
		}
	}
	of := ""
	if kind != "" {
		of = fmt.Sprintf(" of kind %s", kind)
	}
	return "no worker takes jobs" + of + ": `batchfleet worker` starts one, `batchfleet workers` lists them; waiting"
}

// whyQueued says that no worker may lease from the gateway, if it lets this caller know.
func (c *connection) whyQueued(ctx context.Context) string {
	workers, _, err := c.gateway().Workers(ctx)
	if err != nil {
		return ""
	}
	for _, w := range workers {
		if gatewayWorker(w).State != "revoked" {
			return ""
		}
	}
	return "no worker is registered with the gateway: `batchfleet workers enroll` makes a token that lets one register; waiting"
}

// interrupted is err, or, where the command that waits for these jobs was interrupted, that the
// jobs go on, and how to look at them and to stop them. flags are those that name their server.
func interrupted(ctx context.Context, err error, flags string, ids ...string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return program.Exit(program.Interrupted, errors.New("interrupted; "+goingOn(flags, ids...)))
}

// goingOn says that jobs which are no longer waited for go on, how to look at them and to stop them.
func goingOn(flags string, ids ...string) string {
	if len(ids) == 1 {
		id := oneLine(ids[0]) + flags
		return fmt.Sprintf("the job goes on: `batchfleet get %s` shows it, `batchfleet cancel %s` stops it", id, id)
	}
	return fmt.Sprintf("the jobs that have not ended go on: `batchfleet list%s` shows them, `batchfleet cancel JOB…%s` stops them", flags, flags)
}

// given returns the flags by which the server was given to this command, as they are typed.
func (c *connection) given() (flags string) {
	for _, f := range []struct{ name, value string }{{"api", c.api}, {"token-file", c.tokenFile}, {"ca-file", c.caFile}} {
		if f.value != "" {
			flags += " --" + f.name + " " + program.ShellWord(oneLine(f.value))
		}
	}
	return flags
}

// afterwards calls do in a goroutine after a time, unless the function that it returns is called
// before. That ends do's context and waits for it.
func afterwards(ctx context.Context, after time.Duration, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(after):
			do(ctx)
		}
	})
	return func() { cancel(); waiting.Wait() }
}
