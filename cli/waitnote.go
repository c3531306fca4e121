package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub/provider"
	"github.com/batchfleet/batchfleet/status"
)

// queuedPatience is how long a job that is waited for may be queued until it is looked, once, whether
// there is anything that would run it.
const queuedPatience = 5 * time.Second

// noWorker says why no worker of the fleet takes jobs of a kind, which may be empty, and what to do
// about it. It says nothing if one does, and if that cannot be found out.
func noWorker(ctx context.Context, st *status.Store, kind jobs.Kind) string {
	since, err := st.Draining(ctx)
	if err == nil && since != "" {
		return "the fleet is drained, so its workers take no jobs: `batchfleet run start` lets them"
	}
	workers, err := (&provider.Fleet{Status: st}).Workers(ctx)
	if err != nil {
		return ""
	}
	if takers(workers, kind, "idle", "working") {
		return ""
	}
	if why := notReady(workers, kind); why != "" {
		return noTaker(kind) + why
	}
	return noTaker(kind) + startsOne(kind) + ", `batchfleet workers` lists them"
}

// startsOne says what starts a worker that runs a kind, which may be empty.
func startsOne(kind jobs.Kind) string {
	if kind == "" || slices.Contains(knownKinds, string(kind)) {
		return "`batchfleet worker` starts one"
	}
	return "`batchfleet worker --kinds FILE` starts one"
}

// noteNoKind says on stderr if no live worker of the fleet has a kind, whether it takes jobs now
// or not. It says nothing of an empty kind, and if that cannot be found out.
func noteNoKind(ctx context.Context, stderr io.Writer, st *status.Store, kind jobs.Kind) {
	if kind == "" {
		return
	}
	if runs, err := st.Runs(ctx, kind); err == nil && !runs {
		fmt.Fprintf(stderr, "batchfleet: no worker of the fleet has kind %s yet: %s\n", kind, startsOne(kind))
	}
}

// whyFleetQueued is noWorker for a command that may ask a server, which says of its workers
// that they are draining, and not why.
func (c *connection) whyFleetQueued(ctx context.Context, kind jobs.Kind) string {
	if c.local != nil {
		return noWorker(ctx, c.local.status, kind)
	}
	workers, err := c.Workers(ctx)
	why := notReady(workers, kind)
	switch {
	case err != nil || takers(workers, kind, "idle", "working"):
		return ""
	case why != "":
		return noTaker(kind) + why
	case takers(workers, kind, "draining"):
		return noTaker(kind) + "they are draining; if `run drain` has stopped them, `batchfleet run start" + c.given() + "` lets them"
	}
	return noTaker(kind) + startsOne(kind) + ", `batchfleet workers" + c.given() + "` lists them"
}

// takers reports whether a worker in one of these states runs jobs of a kind, or of any if it is empty.
func takers(workers []jobapi.Worker, kind jobs.Kind, states ...string) bool {
	return slices.ContainsFunc(workers, func(w jobapi.Worker) bool {
		return slices.Contains(states, w.State) && (kind == "" || slices.Contains(w.Kinds, string(kind)))
	})
}

// maxReasons is how many reasons are given why workers are not ready: they are the same as a rule.
const maxReasons = 2

// notReady says which workers that run jobs of a kind, or of any if it is empty, take none now, and
// why. It says nothing if there are none.
func notReady(workers []jobapi.Worker, kind jobs.Kind) string {
	var reasons []string
	names := map[string][]string{} // by reason
	for _, w := range workers {
		if !takers([]jobapi.Worker{w}, kind, "unready") {
			continue
		}
		if names[w.Reason] == nil {
			reasons = append(reasons, w.Reason)
		}
		names[w.Reason] = append(names[w.Reason], w.Name)
	}
	var said []string
	for i, reason := range reasons {
		if i == maxReasons {
			said = append(said, "others for other reasons")
			break
		}
		who := names[reason][0] + " is"
		switch others := len(names[reason]) - 1; {
		case others == 1:
			who = strings.Join(names[reason], " and ") + " are"
		case others > 1:
			who = fmt.Sprintf("%s and %d others are", names[reason][0], others)
		}
		said = append(said, who+" not ready: "+reason)
	}
	return strings.Join(said, "; ")
}

func noTaker(kind jobs.Kind) string {
	if kind == "" {
		return "no worker takes jobs: "
	}
	return fmt.Sprintf("no worker takes jobs of kind %s: ", kind)
}

// whyGatewayQueued says that the gateway hands out no jobs, or that no worker may lease from it,
// if it lets this caller know.
func (c *connection) whyGatewayQueued(ctx context.Context) string {
	if leasing, err := c.gateway().Leasing(ctx); err == nil && !leasing {
		return "the gateway is drained, so its workers get no jobs: `batchfleet run start" + c.given() + "` lets them"
	}
	workers, _, err := c.gateway().Workers(ctx)
	if err != nil {
		return ""
	}
	for _, w := range workers {
		if gatewayWorker(w).State != "revoked" {
			return ""
		}
	}
	return "no worker is registered with the gateway: `batchfleet workers enroll" + c.given() + "` makes a token that lets one register"
}

// noteQueued says on stderr, once, why nothing runs a job of a scope and a kind, if queued is true
// after queuedPatience. stop ends that, and waits for it.
func (c *connection) noteQueued(ctx context.Context, stderr io.Writer, scope string, kind jobs.Kind, queued func() bool) (stop func()) {
	return afterwards(ctx, queuedPatience, func(ctx context.Context) {
		if !queued() {
			return
		}
		if why := c.whyQueued(ctx, scope, kind); why != "" && queued() {
			fmt.Fprintln(stderr, "batchfleet:", oneLine(stillWaiting(why)))
		}
	})
}

// whyQueued says why nothing runs a job of a scope and a kind, which may be empty, and what to do about
// it. It says nothing if something does, and if that cannot be found out.
func (c *connection) whyQueued(ctx context.Context, scope string, kind jobs.Kind) string {
	switch scope {
	case "fleet":
		return c.whyFleetQueued(ctx, kind)
	case "zpe", gatewayScope:
		return c.whyGatewayQueued(ctx)
	}
	return ""
}

// stillWaiting is what a command says that knows why nothing runs its job, and waits for it.
func stillWaiting(why string) string {
	if why == "" {
		return ""
	}
	return why + "; waiting"
}

// interrupted is err, or, where the command that waits for these jobs was interrupted, that the
// jobs go on, and how to look at them and to stop them. group and flags are those of the commands for that.
func interrupted(ctx context.Context, err error, group, flags string, ids ...string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return program.Exit(program.Interrupted, errors.New("interrupted; "+goingOn(group, flags, ids...)))
}

// goingOn says that jobs which are no longer waited for go on, how to look at them and to stop them.
func goingOn(group, flags string, ids ...string) string {
	if len(ids) == 1 {
		id := oneLine(ids[0]) + flags
		return fmt.Sprintf("the job goes on: `batchfleet %s%s` shows it, `batchfleet %scancel %s` stops it", showOf(group), id, group, id)
	}
	return fmt.Sprintf("the jobs that have not ended go on: `batchfleet %slist%s` shows them, `batchfleet %scancel JOB…%s` stops them", group, flags, group, flags)
}

// showOf is the command that shows a job, with its group.
func showOf(group string) string {
	if group == "" {
		return "get "
	}
	return group + "show "
}

// given returns the flags by which the server was given to this command, as they are typed.
func (c *connection) given() (flags string) {
	for _, f := range []struct{ name, value string }{{"api", c.api}, {"token-file", c.tokenFile}, {"ca-file", c.caFile}} {
		if f.value != "" && !slices.Contains(c.usual, f.value) {
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
