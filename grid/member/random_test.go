package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// books are what a leader knows of the slots of a worker.
type books struct {
	*leader
	credit   int
	assigned int                     // over this connection
	running  map[wire.GUID]wire.GUID // job to attempt
}

// read takes what has come, and checks that the worker never has more than its two slots.
func (b *books) read() {
	b.Helper()
	synctest.Wait()
	for _, f := range b.take() {
		switch f.Type {
		case wire.HelloWorker:
			var c wire.Capability
			if err := json.Unmarshal(f.Payload, &c); err != nil {
				b.Fatal(err)
			}
			b.credit, b.assigned, b.running = 0, 0, map[wire.GUID]wire.GUID{}
			for _, r := range c.Running {
				b.running[r.JobID] = r.AttemptID
			}
		case wire.Credit:
			n, valid := wire.ParseCredit(f.Payload)
			if !valid {
				b.Fatalf("a Credit of %x", f.Payload)
			}
			b.credit += n
		case wire.AckJob:
			delete(b.running, f.CorrID)
		case wire.Cancel:
			delete(b.running, f.CorrID)
		case wire.Renew:
			var info wire.RenewInfo
			if err := json.Unmarshal(f.Payload, &info); err != nil {
				b.Fatal(err)
			}
			b.credit = max(0, *info.Limit-b.assigned)
		default:
		}
		if b.credit+len(b.running) > 2 {
			b.Fatalf("after %s: %d credits, and %d jobs run; want 2 together at most", text(f), b.credit, len(b.running))
		}
	}
}

// spend assigns a job.
func (b *books) spend(job, attempt int) {
	b.Helper()
	b.credit--
	b.assigned++
	b.running[id(job)] = id(attempt)
	b.assign(job, attempt)
}

// Whatever happens to its jobs and to the connection, a worker gives a credit for each slot that is free, and no more.
func TestG34G36NoCreditIsLostOrGivenTwice(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			test(t, 1, func(r *rig) {
				random := rand.New(rand.NewPCG(seed, 1))
				b := &books{leader: r.leaders[0]}
				r.start(func(ctx context.Context, job jobs.Job) (jobs.Result, error) {
					n := int(job.ID[len(job.ID)-1])
					if jobs.Sleep(ctx, time.Duration(n%7)*300*time.Millisecond) != nil {
						return jobs.Result{}, context.Cause(ctx)
					}
					switch n % 4 {
					case 0:
						return jobs.Result{}, errors.New("no such file")
					case 1:
						return jobs.Result{}, fmt.Errorf("%w: away", jobs.ErrUnavailable)
					}
					return ok(job, "")
				})
				b.read()
				for step := 1; step <= 150; step++ {
					attempt := 1 + random.IntN(250)
					switch what := random.IntN(20); {
					case what < 10 && b.credit > 0:
						b.spend(step, attempt)
					case what < 11 && b.credit > 0: // again, for one that it takes for lost
						for job := range b.running {
							b.spend(int(job[15]), attempt)
							break
						}
					case what < 14:
						for job, attempt := range b.running {
							reason := wire.ReasonCanceled
							if what%2 == 0 {
								reason = wire.ReasonLost
								delete(b.running, job)
							}
							b.cancel(int(job[15]), int(attempt[15]), reason)
							break
						}
					case what == 14:
						b.hangUp()
						time.Sleep(50 * time.Second)
					}
					time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond)
					b.read()
				}
				time.Sleep(5 * time.Minute)
				b.read()
				if b.credit != 2 || len(b.running) != 0 {
					r.Errorf("at the end: %d credits, and %d jobs run; want all free", b.credit, len(b.running))
				}
			})
		})
	}
}
