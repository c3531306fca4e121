package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/jobapitest"
	"github.com/batchfleet/batchfleet/jobs"
)

// TestJ07J08J10J11J15J27J28EngineKeepsTheContract runs the suite on an engine
// whose jobs start when the suite lets them.
func TestJ07J08J10J11J15J27J28EngineKeepsTheContract(t *testing.T) { jobapitest.Jobs(t, openRig) }

func TestD31ListOfAnEngineBeginsBeforeATime(t *testing.T) { jobapitest.Until(t, openRig(t)) }

func TestD09EngineTellsItsChanges(t *testing.T) { jobapitest.Changes(t, openRig(t)) }

func TestD01EngineCountsItsJobs(t *testing.T) { jobapitest.Counter(t, openRig(t)) }

func TestD30EngineSaysWhyAJobWaits(t *testing.T) {
	jobapitest.Explainer(t, openRig(t), jobapi.WhyQueued)
}

func openRig(t *testing.T) jobapitest.Rig {
	t.Helper()
	e := newEngine(t, Limits{MaxQueued: 1000})
	e.lock()
	e.Limits.MaxRunning = 0
	e.mu.Unlock()
	calls := map[string]chan func(Run) error{} // what the step of each job does next
	do := func(id string, f func(Run) error) {
		t.Helper()
		select {
		case calls[id] <- f:
		case <-t.Context().Done():
		}
	}
	return jobapitest.Rig{
		Jobs: e, Type: "utils.go",
		Submit: func(text string) string {
			next := make(chan func(Run) error)
			j, err := e.Create(t.Context(), "go", &script{Token: text, steps: []Step{
				step("one", func(ctx context.Context, r Run) (string, error) {
					for {
						select {
						case <-ctx.Done():
							return "", context.Cause(ctx)
						case f := <-next:
							if f == nil {
								return "", nil
							}
							if err := f(r); err != nil {
								return "", err
							}
						}
					}
				}),
			}})
			if err != nil {
				t.Fatal(err)
			}
			calls[j.ID] = next
			return j.ID
		},
		Start: func(id string) {
			e.lock()
			j := e.byID[id]
			e.waiting = slices.Insert(slices.DeleteFunc(e.waiting, func(w *job) bool { return w == j }), 0, j)
			e.Limits.MaxRunning = len(e.running) + 1
			e.dispatch()
			e.Limits.MaxRunning = 0
			e.mu.Unlock()
			do(id, func(Run) error { return nil }) // its step has begun
		},
		Report: func(id, text string) {
			done := make(chan struct{})
			do(id, func(r Run) error {
				defer close(done)
				r.Message(text)
				r.Logf("%s", text)
				return nil
			})
			<-done
		},
		End: func(id string, status jobs.State, text string) {
			switch status { //nolint:exhaustive // a canceled job has ended by then
			case jobs.Succeeded:
				do(id, nil)
			case jobs.Failed:
				do(id, func(Run) error { return errors.New(text) })
			}
			end(t, e, id)
		},
	}
}
