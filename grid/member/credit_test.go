package member_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestG15G34CreditsNeverExceedTheWindow(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Duration(job.ID[len(job.ID)-1]%5) * 100 * time.Millisecond)
			return ok(job, "")
		})
		credit, inHand := 0, 0
		for n := 1; n <= 200; {
			synctest.Wait()
			for _, f := range l.take() {
				switch f.Type {
				case wire.Credit:
					if len(f.Payload) != 4 {
						r.Fatalf("a Credit of %d bytes", len(f.Payload))
					}
					var c int
					_, _ = fmt.Sscanf(text(f), "Credit %d", &c)
					credit += c
				case wire.AckJob:
					inHand--
				default:
				}
				if credit+inHand > 2 || inHand < 0 {
					r.Fatalf("after %s: %d credits, and %d jobs in hand; want 2 together at most", text(f), credit, inHand)
				}
			}
			for ; credit > 0 && n <= 200; n++ {
				credit--
				inHand++
				l.assign(n, n)
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := len(strings.Fields(r.started())); n != 200 {
			r.Errorf("%d jobs were started, want 200", n)
		}
	})
}

func TestG34AssignmentsWithoutCreditAreLimited(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(untilStopped)
		var many []wire.Frame
		for n := range 102 {
			many = append(many, assignment(n, n))
		}
		l.send(many...)
		if n := l.connections(); n != 1 {
			r.Fatalf("%d connections, want the first one", n)
		}
		l.send(assignment(103, 103))
		time.Sleep(time.Second)
		if n := l.connections(); n != 2 || !strings.Contains(r.log.String(), "assigns jobs without credit") {
			r.Errorf("%d connections, want another one", n)
		}
	})
}

func TestG36RepeatedAssignmentReturnsItsCredit(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		done := make(chan struct{})
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			<-done
			return ok(job, "")
		})
		l.heard()
		l.assign(1, 11)
		l.assign(1, 12) // it took the first one for lost
		want(r, "while it runs", l.heard(wire.AckJob, wire.Credit), "")
		close(done)
		want(r, "after it", l.heard(wire.AckJob, wire.Credit), "AckJob 1 as 12 OK; Credit 2")
		want(r, "started", r.started(), "01")
	})
}

func TestG36HandedBackJobFreesPlaceAfterDelay(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(context.Context, jobs.Job) (jobs.Result, error) {
			return jobs.Result{}, fmt.Errorf("%w: the cache is away", jobs.ErrUnavailable)
		})
		l.heard()
		l.assign(1, 11)
		want(r, "at once", l.heard(wire.AckJob, wire.Credit, wire.Cancel), "Cancel 1 as 11 busy")
		time.Sleep(time.Minute)
		want(r, "later", l.heard(wire.AckJob, wire.Credit), "Credit 1")
	})
}

func TestG34JobsThatComeTogetherStartTogether(t *testing.T) {
	test(t, 1, func(r *rig) {
		l := r.leaders[0]
		r.start(func(_ context.Context, job jobs.Job) (jobs.Result, error) {
			time.Sleep(time.Second)
			return ok(job, "")
		})
		for round := range 50 {
			l.send(assignment(2*round, 1), assignment(2*round+1, 2))
			if n := len(strings.Fields(r.started())); n != 2*round+2 {
				r.Fatalf("round %d: %d jobs were started so far, want %d", round, n, 2*round+2)
			}
			time.Sleep(2 * time.Second)
		}
	})
}
