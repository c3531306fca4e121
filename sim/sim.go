package sim

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// Report is what came of a run.
type Report struct {
	Broken []string      // promises; none if all is well
	Trace  []string      // what has happened
	Took   time.Duration // in virtual time
}

// Print writes what has happened.
func (r Report) Print(w io.Writer) {
	for _, line := range r.Trace {
		_, _ = fmt.Fprintln(w, line)
	}
}

// settleLimit is how long a fleet that is left in peace may need for all its jobs: a lease
// of 10 min that nobody can hand back may have to end, and a lost message to be missed.
const settleLimit = time.Hour

// Fleet runs workers over the Pub/Sub emulator. It must be called in a bubble of
// testing/synctest. Dir is an empty directory; log gets what the processes log and may be nil.
func Fleet(seed uint64, dir string, log io.Writer, bug Bug) Report {
	w := newWorld(seed, dir, log)
	f, err := newFleet(w, bug)
	if err != nil {
		return Report{Broken: []string{err.Error()}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var around sync.WaitGroup
	around.Go(func() { _ = f.emulator.Serve(ctx, f.pipes) })
	w.note("seed %d: %d workers with %d slots, leases of %s, repair each %s, one call in %d fails, faults for %s", seed, f.workers, f.slots, f.lease, f.repairEvery, f.callsPerFault, f.faultsFor)
	for _, j := range f.jobs {
		w.note("%+v", j)
	}
	var targets []target
	for n := range f.workers {
		s := &place{name: fmt.Sprintf("worker-%d", n), kinds: f.kindsOf(n)}
		w.note("%s has %v", s.name, s.kinds)
		f.places, targets = append(f.places, s), append(targets, target{s.name, []string{toRedis, toPubSub, toStore}})
		f.running.Go(func() { f.serve(ctx, s, f.stopping, f.run) })
	}
	for _, e := range drawPlan(seed, fleetFaults, targets, f.faultsFor) {
		w.trace.add(e.String())
		w.after(e.at, func() { f.apply(e) })
	}
	around.Go(func() {
		if err := f.submit(ctx); err != nil {
			panic(err)
		}
	})
	time.Sleep(f.faultsFor)
	w.setCalm()
	if !until(ctx, settleLimit, func() bool { return w.isQuiet() && (f.settled() || f.ledger.isBroken()) }) {
		f.ledger.mu.Lock()
		f.ledger.broken("%s after the last fault the fleet is not done: %v", settleLimit, f.busy())
		f.ledger.mu.Unlock()
	}
	close(f.stopping)
	f.running.Wait()
	f.audit(ctx)
	cancel()
	around.Wait()
	w.end()
	return Report{Broken: f.ledger.wrong, Trace: w.trace.all(), Took: w.age()}
}

func (w *world) setCalm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
}

// isQuiet reports whether no fault of the plan lasts.
func (w *world) isQuiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults := w.troubles
	for _, p := range w.processes {
		faults += p.faults
	}
	return faults == 0
}

// settled reports whether all jobs have ended and no message is left.
func (f *fleet) settled() bool { return len(f.ledger.unfinished()) == 0 && f.messages() == 0 }

// messages returns how many are left in the queue.
func (f *fleet) messages() (n int) {
	for _, s := range f.emulator.Stats() {
		if s.Subscription == queueName {
			n += s.Undelivered + s.Leased
		}
	}
	return n
}

func (f *fleet) busy() []string {
	left := []string{fmt.Sprintf("%d messages", f.messages())}
	for _, a := range f.ledger.accounts {
		if !a.isDone() {
			left = append(left, fmt.Sprintf("job %s is %q", a.id, a.last.status))
		}
	}
	slices.Sort(left)
	return left
}

// audit looks at what is left once all workers have ended.
func (f *fleet) audit(ctx context.Context) {
	p := f.add("audit")
	st, rdb := f.status(p)
	defer rdb.Close()
	held, err := st.Held(ctx)
	running, _, err2 := st.List(ctx, status.Query{State: jobs.Running, Limit: 100})
	_, err3 := st.Fsck(ctx, true)
	found, err4 := st.Fsck(ctx, false)
	f.ledger.mu.Lock()
	defer f.ledger.mu.Unlock()
	for _, err := range []error{err, err2, err3, err4} {
		if err != nil {
			f.ledger.broken("audit: %v", err)
		}
	}
	if len(held)+len(running) > 0 {
		f.ledger.broken("at the end %d jobs are claimed and %d are listed as running", len(held), len(running))
	}
	if found.Left > 0 {
		f.ledger.broken("at the end fsck finds %+v", found.Findings)
	}
	for _, a := range f.ledger.accounts {
		f.ledger.final(a)
	}
}

// final checks the end of a job. l.mu is held.
func (l *ledger) final(a *account) {
	if len(a.outcomes) > 1 && !a.forgiven {
		l.broken("job %s has %d outcomes: %v", a.id, len(a.outcomes), a.outcomes)
	}
	if a.last.status == "completed" {
		if why := l.incomplete(a); why != "" {
			l.broken("job %s is completed, and %s", a.id, why)
		}
	}
}
