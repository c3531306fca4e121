package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/jobs"
)

// answerAfter is what an orchestrator does with an attempt.
type answerAfter struct {
	Code int
	Wait time.Duration
}

// byTurn answers each attempt by its turn, and further ones as the last, unless their context ends before.
type byTurn struct {
	answers []answerAfter
	calls   atomic.Int64
	took    atomic.Bool // one was told that its artifacts are taken
}

// Do implements caller.
func (b *byTurn) Do(ctx context.Context, _ *egress.Request) (egress.Response, error) {
	n := int(b.calls.Add(1))
	a := b.answers[min(n, len(b.answers))-1]
	if err := jobs.Sleep(ctx, a.Wait); err != nil {
		return egress.Response{}, err
	}
	if isSuccess(a.Code) || a.Code == http.StatusConflict {
		b.took.Store(true)
	}
	return egress.Response{Status: a.Code}, nil
}

// In whatever order cancels and repeated uploads meet the answers of the orchestrator, also in the same moment, a task ends
// once, and as all were told.
func TestR15R55CancelMeetsTheEndOfAnUpload(t *testing.T) {
	seconds := rapid.SliceOfN(rapid.IntRange(0, 6), 0, 4)
	rapid.Check(t, func(rt *rapid.T) {
		var answers []answerAfter
		for range rapid.IntRange(1, 4).Draw(rt, "answers") {
			answers = append(answers, answerAfter{rapid.SampledFrom([]int{200, 409, 500, 403}).Draw(rt, "code"), time.Duration(rapid.IntRange(0, 3).Draw(rt, "wait")) * time.Second})
		}
		cancels, retries := seconds.Draw(rt, "cancels"), seconds.Draw(rt, "retries")
		synctest.Test(t, func(t *testing.T) {
			if problem := cancelAndUpload(t, answers, cancels, retries); problem != "" {
				t.Errorf("answers %v, cancels %v, retries %v: %s", answers, cancels, retries, problem)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func cancelAndUpload(t *testing.T, answers []answerAfter, cancels, retries []int) string {
	t.Helper()
	orchestrator := &byTurn{answers: answers}
	r := inBubble(t, nil)
	r.uploads.client = orchestrator
	var mu sync.Mutex
	states, problems := []State{Uploading}, []string(nil)
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	id := r.uploading(oneFile)
	r.tasks.events = func(_ *entry, t *Task) {
		mu.Lock()
		defer mu.Unlock()
		if last := states[len(states)-1]; t.State != last {
			states = append(states, t.State)
		}
	}
	var canceled atomic.Bool
	var all sync.WaitGroup
	for _, at := range cancels {
		all.Go(func() {
			time.Sleep(time.Duration(at) * time.Second)
			switch task, err := r.status.Cancel(id); {
			case err == nil:
				canceled.Store(true)
			case !errors.Is(err, errEnded) || !task.State.Terminal():
				note("cancel: %v", err)
			}
		})
	}
	for _, at := range retries {
		all.Go(func() {
			time.Sleep(time.Duration(at) * time.Second)
			if _, err := r.retryUpload(id); err != nil && !errors.Is(err, errEnded) {
				note("retry: %v", err)
			}
		})
	}
	r.deliver()
	all.Wait()
	time.Sleep(48 * time.Hour)
	task, disk := r.task(id), r.onDisk(id)
	r.stop()
	for i := range states[1:] {
		if !states[i].mayBecome(states[i+1]) {
			note("it went through %v", states)
		}
	}
	switch {
	case !task.State.Terminal() || task.CancelRequested || r.tasks.find(id).cancel != nil:
		note("it has not ended: %s", jsonOf(t, task))
	case disk.State != task.State || disk.Sequence != task.Sequence:
		note("on disk it is %s", disk.State)
	case canceled.Load() != (task.State == Canceled):
		note("it is %s, cancel was promised: %t", task.State, canceled.Load())
	case task.State == Succeeded && !orchestrator.took.Load():
		note("it has succeeded and nothing was taken")
	case r.tasks.count(task.State) != 1 || r.tasks.count(Uploading) != 0:
		note("it is not counted")
	}
	return strings.Join(problems, "; ")
}

// Callbacks are registered at random while events are told: the last one is told how the task has ended, and none is told
// things in another order.
func TestR13R62RegistrationsMeetDeliveries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 5).Draw(rt, "registrations")
		end := rapid.IntRange(0, 20).Draw(rt, "end")
		codes := rapid.SliceOfN(rapid.SampledFrom([]int{200, 500, 410, 301}), 1, 6).Draw(rt, "codes")
		synctest.Test(t, func(t *testing.T) {
			slices.Sort(at)
			var mu sync.Mutex
			got := map[string][]string{} // event ids by URL
			gone := map[string]bool{}
			calls := 0
			r := inBubble(t, nil)
			r.callbacks.others.client = callerFunc(func(_ context.Context, q *egress.Request) (egress.Response, error) {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				code := 200
				if calls++; calls <= len(codes) {
					code = codes[calls-1]
				}
				body, _ := q.Body() // of memory
				var event eventBody
				if err := json.NewDecoder(body).Decode(&event); err != nil {
					t.Error(err)
				}
				got[q.URL] = append(got[q.URL], event.ID)
				gone[q.URL] = gone[q.URL] || code == 410
				return egress.Response{Status: code}, nil
			})
			r.deliver()
			id := r.queued("https://hooks.test/first")
			last := ""
			var all sync.WaitGroup
			for i, second := range at {
				last = fmt.Sprintf("https://hooks.test/%d", i)
				to := Callback{URL: last, Events: allEvents}
				// Each in a moment of its own, so that the last is known, and some in that of an answer.
				when := time.Duration(second)*time.Second + time.Duration(i)
				all.Go(func() {
					time.Sleep(when)
					if err := r.callbacks.register(id, to); err != nil {
						t.Error(err)
					}
				})
			}
			all.Go(func() {
				time.Sleep(time.Duration(end) * time.Second)
				if _, err := r.status.Cancel(id); err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			time.Sleep(200 * time.Hour)
			task := r.task(id)
			r.stop()
			mu.Lock()
			defer mu.Unlock()
			if len(task.Events) > 0 || r.tasks.find(id).busy {
				t.Errorf("events wait: %s", jsonOf(t, task))
			}
			if want := fmt.Sprintf("%s.%d", id, task.Sequence); !slices.Contains(got[last], want) && !gone[last] {
				t.Errorf("the last callback was told %v, not %s; at %v, end %d, codes %v", got[last], want, at, end, codes)
			}
			for url, ids := range got {
				if !slices.IsSorted(ids) {
					t.Errorf("%s was told %v", url, ids)
				}
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

type callerFunc func(context.Context, *egress.Request) (egress.Response, error)

// Do implements caller.
func (f callerFunc) Do(ctx context.Context, r *egress.Request) (egress.Response, error) {
	return f(ctx, r)
}
