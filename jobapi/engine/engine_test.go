package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// A script is a request whose steps the test brings along.
type script struct {
	jobapi.Options
	Count int    `json:"count"`
	Token string `json:"token"`
	steps []Step

	broken func() // what asking for the steps does; nil for none
}

func (s *script) Check() error { return nil }
func (s *script) Echo() any    { return map[string]any{"count": s.Count, "note": s.Token} }
func (s *script) Steps() []Step {
	if s.broken != nil {
		s.broken()
	}
	return s.steps
}

// step returns a step that does what run does.
func step(name string, run func(context.Context, Run) (string, error)) Step {
	return Step{Name: name, Description: "do " + name, Run: run}
}

func says(name, message string) Step {
	return step(name, func(context.Context, Run) (string, error) { return message, nil })
}

// waits returns a step that ends with its context.
func waits(name string) Step {
	return step(name, func(ctx context.Context, _ Run) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
}

func newEngine(t *testing.T, limits Limits) *Engine {
	t.Helper()
	e := &Engine{Scope: "utils", Limits: limits, Supported: []Operation{
		{Name: "go", New: func() Request { return &script{} }},
		{Name: "load", Load: true, New: func() Request { return &script{} }},
	}}
	t.Cleanup(func() {
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return e
}

func create(t *testing.T, e *Engine, steps ...Step) string {
	t.Helper()
	j, err := e.Create(t.Context(), "go", &script{steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

func get(t *testing.T, e *Engine, id string) jobapi.Job {
	t.Helper()
	found, err := e.Get(t.Context(), []string{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("got %d jobs, %v", len(found), err)
	}
	return found[0]
}

// end waits until a job has ended, and returns it.
func end(t *testing.T, e *Engine, id string) jobapi.Job {
	t.Helper()
	for {
		changed := e.Changed()
		if j := get(t, e, id); j.Status.Terminal() {
			return j
		}
		<-changed
	}
}

func logOf(t *testing.T, e *Engine, id string) string {
	t.Helper()
	l, err := e.Log(t.Context(), id, jobapi.LogQuery{Tail: 5000})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, line := range l.Lines {
		b.WriteString(line.Text + "\n")
	}
	return b.String()
}

// statuses is the words of a job and its steps.
func statuses(j jobapi.Job) string {
	words := []string{j.Status.String()}
	for _, s := range j.Steps {
		words = append(words, s.Status.String())
	}
	return strings.Join(words, " ")
}

func TestJ03JobHasAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{})
		id := create(t, e, says("one", "done"))
		synctest.Wait()
		text, err := json.Marshal(get(t, e, id))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"jobId":"` + id + `","scope":"utils","type":"utils.go","status":"succeeded","createdAt":"2000-01-01T00:00:00.000Z",` +
			`"startedAt":"2000-01-01T00:00:00.000Z","finishedAt":"2000-01-01T00:00:00.000Z","request":{"count":0,"note":""},` +
			`"progress":{"currentStep":1,"totalSteps":1,"completedSteps":1},"steps":[{"name":"one","status":"succeeded",` +
			`"startedAt":"2000-01-01T00:00:00.000Z","finishedAt":"2000-01-01T00:00:00.000Z","message":"done"}],"result":{},"error":null}`
		if string(text) != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	})
}

func TestJ04IDsAreULIDsAndGrow(t *testing.T) {
	var g ids
	last := ""
	for range 10_000 {
		id, at, err := g.next(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if !idForm().MatchString(id) || id <= last || at.IsZero() {
			t.Fatalf("id %q at %v comes after %q", id, at, last)
		}
		last = id
	}
	g.last = g.last.Add(time.Hour) // the clock was set back
	ahead, _, _ := g.next(time.Now())
	if id, _, _ := g.next(time.Now()); id <= ahead || ahead <= last {
		t.Errorf("%q, %q and %q do not grow", last, ahead, id)
	}
}

func TestJ04IDsGrowWhenAMillisecondHasNoMore(t *testing.T) {
	// The greatest id of a millisecond, what it would grow by, and one of the next.
	greatest := strings.Repeat("\xff", 10)
	g := ids{entropy: ulid.Monotonic(strings.NewReader(greatest+"\x01\x01\x01\x01"+greatest), 0)}
	now := time.Now()
	first, _, err := g.next(now)
	if err != nil {
		t.Fatal(err)
	}
	if id, at, err := g.next(now); err != nil || id <= first || at.Sub(now) != time.Millisecond {
		t.Errorf("%q of %s later comes after %q, %v", id, at.Sub(now), first, err)
	}
}

func TestJ04AClockThatIsSetBackLosesNoJob(t *testing.T) {
	if at := wallClock(); strings.Contains(at.String(), " m=") {
		t.Errorf("%v is compared by another clock than it shows", at)
	}
	var back atomic.Int64 // how far; it was ahead before
	back.Store(-int64(3 * time.Hour))
	e := newEngine(t, Limits{MaxRunning: 1, MaxQueued: 1, Retain: 2})
	e.now = func() time.Time { return wallClock().Add(-time.Duration(back.Load())) }
	setBack := step("set back", func(context.Context, Run) (string, error) { back.Add(int64(time.Hour)); return "", nil })
	failing := step("fail", func(context.Context, Run) (string, error) { return "", errors.New("no") })
	last := ""
	for _, steps := range [][]Step{{says("one", "")}, {setBack, says("two", "")}, {says("one", ""), setBack, failing}, {says("one", "")}, {setBack}} {
		id := create(t, e, steps...)
		end(t, e, id)
		e.idle()
		if id <= last {
			t.Errorf("%s comes after %s", id, last)
		}
		last = id
		j := get(t, e, id)
		at := j.CreatedAt.Time
		times := []jobapi.Time{j.StartedAt}
		for _, s := range j.Steps {
			times = append(times, s.StartedAt, s.FinishedAt)
		}
		for i, next := range append(times, j.FinishedAt) {
			if next.Before(at) {
				t.Errorf("time %d of %+v is before the one before", i, j)
			}
			at = next.Time
		}
	}
	page, err := e.List(t.Context(), jobapi.Query{Limit: 200})
	if err != nil || len(page.Items) != 2 || len(e.byID) != 2 {
		t.Errorf("%d jobs are listed, %d known, want 2 of each; %v", len(page.Items), len(e.byID), err)
	}
	// What waits for its start has its whole time, whatever is shown.
	holds := create(t, e, waits("one"))
	waiting := create(t, e, says("one", ""))
	e.mu.Lock()
	left := time.Until(e.byID[waiting].due)
	e.mu.Unlock()
	if (left - e.Limits.Timeout).Abs() > time.Minute {
		t.Errorf("a new job has %v left to wait", left)
	}
	for _, id := range []string{waiting, holds} {
		if _, err := e.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

func TestJ06AJobIsCreatedQueued(t *testing.T) {
	e := newEngine(t, Limits{})
	j, err := e.Create(t.Context(), "go", &script{steps: []Step{waits("one")}})
	if err != nil || j.Status != jobs.Queued || !j.StartedAt.IsZero() || j.Type != "utils.go" || j.CreatedAt.IsZero() {
		t.Errorf("created %+v, %v", j, err)
	}
	if j.Version == get(t, e, j.ID).Version {
		t.Error("the running job has the version of the queued one")
	}
}

func TestJ05J24StepsAreSkippedWithAReason(t *testing.T) {
	e := newEngine(t, Limits{})
	skip := Step{
		Name:        "topic",
		AlreadyDone: func(context.Context) (string, bool, error) { return "it is there", true, nil },
		Run:         func(context.Context, Run) (string, error) { return "", errors.New("it was run") },
	}
	bad := step("check", func(_ context.Context, r Run) (string, error) {
		r.Message("looking")
		return "", errors.New("disk is full")
	})
	j := end(t, e, create(t, e, skip, bad, says("last", "")))
	if got, want := statuses(j), "failed skipped failed pending"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := (jobapi.Progress{Current: 2, Total: 3, Completed: 1}); j.Progress != want {
		t.Errorf("progress is %+v, want %+v", j.Progress, want)
	}
	s := j.Steps[0]
	if s.StartedAt.IsZero() || s.FinishedAt.IsZero() || s.Message != "it is there" {
		t.Errorf("skipped step is %+v", s)
	}
	if s := j.Steps[1]; s.Message != "disk is full" || s.FinishedAt.IsZero() {
		t.Errorf("failed step is %+v", s)
	}
	if j.Error == nil || j.Error.Code != "FAILED" || j.Error.Message != "disk is full" || j.Result != nil {
		t.Errorf("error is %+v, result %s", j.Error, j.Result)
	}
	want := "step 1/3 topic: started\nstep 1/3 topic: skipped: it is there\nstep 2/3 check: started\nstep 2/3 check: failed: disk is full\njob failed: FAILED: disk is full\n"
	if got := logOf(t, e, j.ID); got != want {
		t.Errorf("log is\n%swant\n%s", got, want)
	}
}

func TestErrorsOfStepsBecomeErrorsOfTheJob(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want jobapi.Error
	}{
		{"plain", errors.New("no"), jobapi.Error{Code: "FAILED", Message: "no"}},
		{"refused", fmt.Errorf("look at dead letters: %w", &jobapi.Refusal{Status: 409, Code: jobapi.CodePrecondition, Message: "they are not kept"}), jobapi.Error{Code: "FAILED_PRECONDITION", Message: "look at dead letters: they are not kept"}},
		{"unavailable", fmt.Errorf("ask Redis: %w", jobs.ErrUnavailable), jobapi.Error{Code: "UPSTREAM_UNAVAILABLE", Message: "ask Redis: infrastructure unavailable"}},
		{"failure", &Failure{Code: "NOT_CONFIRMED", Details: map[string]any{"id": "a", "token": "x"}, Err: errors.New("no")}, jobapi.Error{Code: "NOT_CONFIRMED", Message: "no", Details: map[string]any{"id": "a", "token": "[redacted]"}}},
		{"failure with a bad code", &Failure{Code: "not a code", Err: errors.New("no")}, jobapi.Error{Code: "FAILED", Message: "no"}},
		{"details that are no JSON", &Failure{Code: "X", Details: map[string]any{"f": func() {}}, Err: errors.New("no")}, jobapi.Error{Code: "X", Message: "no", Details: map[string]any{"omitted": true}}},
		{"secret", errors.New("dial redis://a:hunter2@h"), jobapi.Error{Code: "FAILED", Message: "dial redis://[redacted]@h"}},
		{"long", errors.New(strings.Repeat("é", 9000)), jobapi.Error{Code: "FAILED", Message: strings.Repeat("é", 2028) + "… [13944 bytes cut]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Limits{})
			j := end(t, e, create(t, e, step("one", func(context.Context, Run) (string, error) { return "", tt.err })))
			if d := cmp.Diff(&tt.want, j.Error); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestJ05CanceledStepsCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 1, MaxQueued: 1})
		running, waiting := create(t, e, says("zero", ""), waits("one"), says("two", "")), create(t, e, says("one", ""), says("two", ""))
		synctest.Wait()
		for id, want := range map[string]jobapi.Progress{waiting: {Total: 2}, running: {Current: 2, Total: 3, Completed: 1}} {
			if j, err := e.Cancel(t.Context(), id); err != nil || j.Progress != want {
				t.Errorf("progress of a job that is %s is %+v, want %+v; %v", statuses(j), j.Progress, want, err)
			}
		}
	})
}

func TestJ15QueuedJobIsCanceledAndNeverStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 1, MaxQueued: 2})
		first := create(t, e, waits("one"))
		second := create(t, e, step("one", func(context.Context, Run) (string, error) {
			t.Error("a canceled job was started")
			return "", nil
		}))
		j, err := e.Cancel(t.Context(), second)
		if err != nil || statuses(j) != "canceled canceled" || !j.StartedAt.IsZero() || j.FinishedAt.IsZero() {
			t.Errorf("canceled %+v, %v", j, err)
		}
		if _, err := e.Cancel(t.Context(), first); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

func TestJ16J18CanceledJobHoldsItsPlaceUntilItsStepReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{Exclusive: true})
		release := make(chan struct{})
		var cause error
		var late Run
		id := create(t, e, says("zero", "ok"), step("one", func(ctx context.Context, r Run) (string, error) {
			late = r
			<-ctx.Done()
			cause = context.Cause(ctx)
			<-release
			return "too late", nil
		}), says("two", ""))
		synctest.Wait()
		time.Sleep(time.Second)
		j, err := e.Cancel(t.Context(), id)
		if err != nil || statuses(j) != "canceled succeeded canceled canceled" {
			t.Fatalf("canceled %s, %v", statuses(j), err)
		}
		if j.FinishedAt.Sub(j.StartedAt.Time) != time.Second {
			t.Errorf("finished at %v, started at %v", j.FinishedAt, j.StartedAt)
		}
		synctest.Wait()
		if !errors.Is(cause, jobs.ErrCanceled) {
			t.Errorf("cause is %v", cause)
		}
		_, err = e.Create(t.Context(), "go", &script{})
		var refusal *jobapi.Refusal
		if !errors.As(err, &refusal) || refusal.Status != 409 || refusal.Code != "CONFLICT" || refusal.Details["jobId"] != id || refusal.Details["stopping"] != true {
			t.Errorf("create: %+v", err)
		}
		late.Logf("too late")
		late.Message("too late")
		late.Result(map[string]any{"too": "late"})
		close(release)
		synctest.Wait()
		if d := cmp.Diff(j, get(t, e, id)); d != "" {
			t.Errorf("it changed after its end: %s", d)
		}
		if l := logOf(t, e, id); strings.Contains(l, "late") {
			t.Errorf("log is %s", l)
		}
		create(t, e)
	})
}

func TestJ19ExclusiveEnginesRefuseASecondJob(t *testing.T) {
	e := newEngine(t, Limits{Exclusive: true, MaxRunning: 7, MaxQueued: 3})
	id := create(t, e, waits("one"))
	_, err := e.Create(t.Context(), "go", &script{})
	var refusal *jobapi.Refusal
	if !errors.As(err, &refusal) || refusal.Status != 409 || refusal.Details["jobId"] != id || refusal.Details["stopping"] != nil {
		t.Errorf("create: %+v", err)
	}
}

// TestJ19ThePlaceOfAJobIsFreeOnceItsEndIsSeen starts one job after the other,
// each at the moment that the end of the one before is seen.
func TestJ19ThePlaceOfAJobIsFreeOnceItsEndIsSeen(t *testing.T) {
	e := newEngine(t, Limits{Exclusive: true, Retain: 10})
	fails := step("a", func(context.Context, Run) (string, error) { return "", errors.New("no") })
	exits := step("a", func(context.Context, Run) (string, error) { runtime.Goexit(); return "", nil })
	for range 1000 {
		for _, steps := range [][]Step{{says("a", "x"), says("b", "y")}, {fails}, {exits}, nil} {
			id := create(t, e, steps...)
			for !get(t, e, id).Status.Terminal() {
				runtime.Gosched()
			}
		}
	}
}

// TestJ19J28AStepIsOverAllAtOnce ends a step as its goroutine does, which is not
// back yet: so nothing that it does after may be missing.
func TestJ19J28AStepIsOverAllAtOnce(t *testing.T) {
	fails := step("one", func(context.Context, Run) (string, error) { return "", errors.New("no") })
	for _, tt := range []struct {
		name string
		ends Step
		more []Step
		want string
	}{
		{"the job succeeds", says("one", ""), nil, "succeeded succeeded"},
		{"the job fails", fails, []Step{says("two", "")}, "failed failed pending"},
		{"the job goes on", says("one", ""), []Step{says("two", "")}, "running succeeded pending"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Limits{Exclusive: true})
			begun, release := make(chan struct{}), make(chan struct{})
			defer close(release)
			id := create(t, e, append([]Step{step("one", func(context.Context, Run) (string, error) {
				close(begun)
				<-release
				return "", nil
			})}, tt.more...)...)
			<-begun
			before := get(t, e, id)
			e.lock()
			j := e.byID[id]
			e.mu.Unlock()
			e.do(j, 0, tt.ends)
			after := get(t, e, id)
			if got := statuses(after); got != tt.want || after.Version == before.Version {
				t.Errorf("it is %s, version %s after %s; want %s", got, after.Version, before.Version, tt.want)
			}
			if after.Status.Terminal() {
				end(t, e, create(t, e, says("one", "")))
			}
		})
	}
}

func TestJ24AStepThatReturnsNoMessageKeepsItsLast(t *testing.T) {
	e := newEngine(t, Limits{})
	j := end(t, e, create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
		r.Message("3 of 3 are there")
		return "", nil
	})))
	if got := j.Steps[0].Message; got != "3 of 3 are there" {
		t.Errorf("the message is %q", got)
	}
	if l := logOf(t, e, j.ID); !strings.Contains(l, "step 1/1 one: succeeded: 3 of 3 are there\n") {
		t.Errorf("log is %s", l)
	}
}

func TestJ20FourRunAtATimeAndOneThatPutsLoad(t *testing.T) {
	e := newEngine(t, Limits{})
	for i, op := range []string{"load", "load", "go", "go", "go", "go"} {
		_, err := e.Create(t.Context(), op, &script{steps: []Step{waits("one")}})
		var refusal *jobapi.Refusal
		if full := i == 1 || i == 5; errors.As(err, &refusal) != full || full && refusal.Status != 429 {
			t.Errorf("job %d, of %s: %v", i, op, err)
		}
	}
}

func TestJ20RefusalNamesTheJobThatPutsLoadOnTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 2, MaxLoad: 1})
		work := &script{steps: []Step{step("one", func(ctx context.Context, _ Run) (string, error) {
			<-ctx.Done()
			return "", nil
		})}}
		running, err := e.Create(t.Context(), "load", work)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Create(t.Context(), "load", work)
		var refusal *jobapi.Refusal
		if !errors.As(err, &refusal) || refusal.Details["jobId"] != running.ID || !strings.Contains(refusal.Message, "Job "+running.ID+" puts load on the fleet already; no more than 1 job may") {
			t.Errorf("create: %+v", err)
		}
		if _, err := e.Cancel(t.Context(), running.ID); err != nil {
			t.Error(err)
		}
	})
}

func TestJ20LimitsRefuseAndQueueInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		e := newEngine(t, Limits{MaxRunning: 2, MaxLoad: 1, MaxQueued: 3})
		e.Metrics = NewMetrics(registry)
		var order []string
		make := func(op, name string) (string, error) {
			j, err := e.Create(t.Context(), op, &script{steps: []Step{step("one", func(ctx context.Context, _ Run) (string, error) {
				order = append(order, name)
				<-ctx.Done()
				return "", nil
			})}})
			synctest.Wait()
			return j.ID, err
		}
		a, _ := make("load", "a")
		b, _ := make("load", "b") // waits: one load at a time
		c, _ := make("go", "c")   // overtakes it, there is a place
		d, _ := make("go", "d")   // waits
		f, _ := make("go", "f")   // waits behind it
		_, err := make("go", "e")
		var refusal *jobapi.Refusal
		if !errors.As(err, &refusal) || refusal.Status != 429 || refusal.Code != "RATE_LIMITED" {
			t.Errorf("create: %+v", err)
		}
		want := map[string]float64{"queued": 3, "running": 2, "stopping": 0, "RATE_LIMITED": 1, "CONFLICT": 0}
		if d := cmp.Diff(want, gather(t, registry)); d != "" {
			t.Error(d)
		}
		for _, id := range []string{c, a, b, d, f} {
			if _, err := e.Cancel(t.Context(), id); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if got := strings.Join(order, " "); got != "a c d b f" {
			t.Errorf("started in the order %s", got)
		}
	})
}

// gather returns the jobs now by status, and the refused by code.
func gather(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "status" && f.GetName() == "batchfleet_engine_jobs" || l.GetName() == "code" {
					values[l.GetValue()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
	}
	return values
}

// counters returns a counter by the values of its labels, but for the scope.
func counters(t *testing.T, r *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "scope" {
					labels = append(labels, l.GetValue())
				}
			}
			if f.GetName() == name {
				values[strings.Join(labels, " ")] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func TestJ30AJobThatHoldsItsPlaceAfterItsEndIsStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		e := newEngine(t, Limits{})
		e.Metrics = NewMetrics(registry)
		release := make(chan struct{})
		id := create(t, e, step("one", func(context.Context, Run) (string, error) { <-release; return "", nil }))
		want := map[string]float64{"queued": 0, "running": 1, "stopping": 0, "RATE_LIMITED": 0, "CONFLICT": 0}
		look := func() {
			t.Helper()
			synctest.Wait()
			if d := cmp.Diff(want, gather(t, registry)); d != "" {
				t.Error(d)
			}
		}
		look()
		if _, err := e.Cancel(t.Context(), id); err != nil {
			t.Error(err)
		}
		want["running"], want["stopping"] = 0, 1
		look()
		close(release)
		want["stopping"] = 0
		look()
	})
}

func TestJ30EndsRefusalsAndDroppedLinesAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	e := newEngine(t, Limits{Exclusive: true, Retain: 1})
	e.Metrics = NewMetrics(registry)
	run := func(steps ...Step) {
		end(t, e, create(t, e, steps...))
		e.idle()
	}
	run(says("one", ""))
	run(says("one", "")) // the first is forgotten, but no line of it was dropped
	run(step("one", func(context.Context, Run) (string, error) { return "", errors.New("no") }))
	run(step("one", func(_ context.Context, r Run) (string, error) {
		for range maxLog/maxLine + 1 {
			r.Logf("%s", strings.Repeat("x ", maxLine/2))
		}
		return "", nil
	}))
	page, err := e.List(t.Context(), jobapi.Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Log(t.Context(), page.Items[0].ID, jobapi.LogQuery{Tail: 1})
	if err != nil || l.Dropped == 0 {
		t.Errorf("%d lines are dropped, %v", l.Dropped, err)
	}
	id := create(t, e, waits("one"))
	for range 2 {
		if _, err := e.Create(t.Context(), "go", &script{}); err == nil {
			t.Error("a second job was taken")
		}
	}
	if _, err := e.Cancel(t.Context(), id); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]map[string]float64{
		"jobs_ended_total":        {"succeeded utils.go": 3, "failed utils.go": 1, "canceled utils.go": 1},
		"jobs_refused_total":      {"CONFLICT": 2, "RATE_LIMITED": 0},
		"log_lines_dropped_total": {"": float64(l.Dropped)},
	} {
		if d := cmp.Diff(want, counters(t, registry, "batchfleet_engine_"+name)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestJ30LinesAreCountedAsDroppedToTheLast(t *testing.T) {
	registry := prometheus.NewRegistry()
	e := newEngine(t, Limits{})
	e.Metrics = NewMetrics(registry)
	id := create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
		for range 2000 {
			r.Logf("%s", strings.Repeat("x ", 1500))
		}
		return "", nil
	}))
	end(t, e, id)
	l, err := e.Log(t.Context(), id, jobapi.LogQuery{Tail: 1})
	counted := counters(t, registry, "batchfleet_engine_log_lines_dropped_total")[""]
	if err != nil || l.Dropped == 0 || counted != float64(l.Dropped) {
		t.Errorf("%v lines are counted as dropped, want %d; %v", counted, l.Dropped, err)
	}
	held := -1.0
	families, err := registry.Gather()
	for _, f := range families {
		if f.GetName() == "batchfleet_engine_log_bytes" {
			held = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if err != nil || held != float64(e.Logs.Used()) || held < 4<<20 {
		t.Errorf("logs are said to hold %v bytes, want %d; %v", held, e.Logs.Used(), err)
	}
}

func TestJ21TimeoutFailsARunningAndAWaitingJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 1, MaxQueued: 2, Timeout: time.Hour})
		ms := int64(2000)
		hold := make(chan struct{})
		var cause error
		r := &script{steps: []Step{step("one", func(ctx context.Context, r Run) (string, error) {
			r.Message("asking")
			<-ctx.Done()
			cause = context.Cause(ctx)
			<-hold
			return "done", nil
		}), says("two", "")}}
		r.TimeoutMs = &ms
		time.Sleep(500 * time.Millisecond)
		running, err := e.Create(t.Context(), "go", r)
		if err != nil {
			t.Fatal(err)
		}
		w := &script{steps: []Step{says("one", "")}}
		w.TimeoutMs = &ms
		time.Sleep(time.Second)
		waiting, err := e.Create(t.Context(), "go", w)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if got := statuses(get(t, e, running.ID)); got != "running running pending" {
			t.Errorf("before its time it is %s", got)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		j := get(t, e, running.ID)
		if statuses(j) != "failed failed pending" || j.Error.Code != "TIMEOUT" || j.Error.Message != "The job took longer than the 2s that it has: asking" || j.Steps[0].Message != j.Error.Message || !errors.Is(cause, jobs.ErrTimeout) {
			t.Errorf("in time it is %s, %+v, cause %v", statuses(j), j.Error, cause)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		j = get(t, e, waiting.ID)
		if statuses(j) != "failed pending" || j.Error.Code != "TIMEOUT" || !j.StartedAt.IsZero() {
			t.Errorf("the waiting one is %s, %+v", statuses(j), j.Error)
		}
		close(hold)
	})
}

func TestJ21AJobHasTheTimeOfItsEngineUnlessItSays(t *testing.T) {
	for _, tt := range []struct{ limit, want time.Duration }{{0, 24 * time.Hour}, {time.Minute, time.Minute}, {48 * time.Hour, 24 * time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine(t, Limits{Timeout: tt.limit})
			id := create(t, e, waits("one"))
			time.Sleep(tt.want)
			synctest.Wait()
			j := get(t, e, id)
			if took := j.FinishedAt.Sub(j.StartedAt.Time); j.Error == nil || j.Error.Code != "TIMEOUT" || took != tt.want || j.Error.Details["timeoutMs"] != tt.want.Milliseconds() {
				t.Errorf("an engine of %s: after %s it is %s, %+v", tt.limit, took, j.Status, j.Error)
			}
		})
	}
}

func TestJ21AJobThatHasWaitedHasItsWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 1, MaxQueued: 1})
		first := create(t, e, waits("one"))
		ms := int64(2000)
		r := &script{steps: []Step{waits("one")}}
		r.TimeoutMs = &ms
		j, err := e.Create(t.Context(), "go", r)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := e.Cancel(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Second - time.Millisecond)
		synctest.Wait()
		if got := get(t, e, j.ID); got.Status != jobs.Running {
			t.Errorf("before its time it is %s, %+v", got.Status, got.Error)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		got := get(t, e, j.ID)
		if took := got.FinishedAt.Sub(got.StartedAt.Time); got.Status != jobs.Failed || got.Error.Code != "TIMEOUT" || took != 2*time.Second {
			t.Errorf("after %v it is %s, %+v", took, got.Status, got.Error)
		}
	})
}

func TestJ17WhatALateGoroutineSaysChangesNoResult(t *testing.T) {
	e := newEngine(t, Limits{})
	var left Run
	first := step("one", func(_ context.Context, r Run) (string, error) {
		left = r
		r.Result(map[string]int{"a": 1})
		return "", nil
	})
	id := create(t, e, first, step("two", func(context.Context, Run) (string, error) {
		left.Result(map[string]int{"late": 1})
		left.Message("late")
		left.Logf("late")
		return "", nil
	}))
	before := end(t, e, id)
	left.Result(map[string]int{"late": 2})
	after := get(t, e, id)
	if d := cmp.Diff(before, after); d != "" || string(after.Result) != `{"a":1}` {
		t.Errorf("result is %s; %s", after.Result, d)
	}
	if l := logOf(t, e, id); strings.Contains(l, "late") {
		t.Errorf("log is %s", l)
	}
}

func TestJ25PanicInWhatAPlanAsksShowsOnlyInTheServersLog(t *testing.T) {
	boom := func() { panic("boom token=hunter2") }
	for name, r := range map[string]*script{
		"done":  {steps: []Step{{Name: "one", AlreadyDone: func(context.Context) (string, bool, error) { boom(); return "", false, nil }}}},
		"steps": {broken: boom},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, Limits{})
			var b testlog.Buffer
			e.Logger = slog.New(slog.NewTextHandler(&b, nil))
			_, planned := e.Plan(t.Context(), "go", r)
			errs := []error{planned}
			if r.broken != nil {
				_, created := e.Create(t.Context(), "go", r)
				errs = append(errs, created)
			}
			for _, err := range errs {
				if !errors.Is(err, errPanic) || strings.Contains(err.Error(), "boom") {
					t.Errorf("it says %v", err)
				}
			}
			if log := b.String(); strings.Count(log, "msg=panic") != len(errs) || !strings.Contains(log, "boom") || strings.Contains(log, "hunter2") {
				t.Errorf("the server's log is %s", log)
			}
			if len(e.all) != 0 {
				t.Error("a job was made")
			}
		})
	}
}

func TestJ27APlanShowsNoSecret(t *testing.T) {
	e := newEngine(t, Limits{})
	plan, err := e.Plan(t.Context(), "go", &script{steps: []Step{
		{Name: "a", Description: "use token=hunter2"},
		{Name: "b", AlreadyDone: func(context.Context) (string, bool, error) { return "password=hunter2 is set", true, nil }},
	}})
	want := []jobapi.Planned{{Step: "a", Action: "run", Reason: "use token=[redacted]"}, {Step: "b", Action: "skip", Reason: "password=[redacted] is set"}}
	if d := cmp.Diff(want, plan); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

func TestJ27AMessageShowsNoSecretWhileItsStepRuns(t *testing.T) {
	e := newEngine(t, Limits{})
	said, shown := make(chan struct{}), make(chan struct{})
	id := create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
		r.Message("with token=hunter2")
		close(said)
		<-shown
		return "", nil
	}))
	<-said
	if got := get(t, e, id).Steps[0].Message; got != "with token=[redacted]" {
		t.Errorf("message is %q", got)
	}
	close(shown)
	end(t, e, id)
}

func TestJ26AThousandEndedJobsAreKept(t *testing.T) {
	e := newEngine(t, Limits{})
	first := end(t, e, create(t, e)).ID
	second := end(t, e, create(t, e)).ID
	for range 999 {
		end(t, e, create(t, e))
	}
	found, err := e.Get(t.Context(), []string{first, second})
	if err != nil || len(found) != 1 || found[0].ID != second || len(e.all) != 1000 {
		t.Errorf("%d jobs are kept, %d of the first two, %v", len(e.all), len(found), err)
	}
}

func TestJ26EndedJobsAreForgottenWhenTheyAreLarge(t *testing.T) {
	e := newEngine(t, Limits{Retain: 100})
	run := func(size int) {
		end(t, e, create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
			r.Result(map[string]string{"a": strings.Repeat("x ", size/2)})
			return "", nil
		})))
		e.idle()
	}
	const large = maxResult - 1000
	for range 70 {
		run(large)
	}
	fit := maxKept / large
	if len(e.ended) < fit-1 || len(e.ended) > fit {
		t.Errorf("%d large jobs are kept, %d fit", len(e.ended), fit)
	}
	for range 100 {
		run(10)
	}
	kept := 0
	for _, j := range e.all {
		kept += j.bytes()
	}
	if len(e.all) != 100 || kept != e.kept {
		t.Errorf("%d small jobs are kept with %d bytes, counted as %d", len(e.all), kept, e.kept)
	}
}

func TestJ23PlanChangesNothing(t *testing.T) {
	e := newEngine(t, Limits{MaxRunning: 1})
	asks := func(reason string, done bool, err error) func(context.Context) (string, bool, error) {
		return func(context.Context) (string, bool, error) { return reason, done, err }
	}
	run := func(context.Context, Run) (string, error) { t.Error("a plan ran a step"); return "", nil }
	plan, err := e.Plan(t.Context(), "go", &script{steps: []Step{
		{Name: "a", Description: "make a", Run: run},
		{Name: "b", Description: "make b", AlreadyDone: asks("b is there", true, nil), Run: run},
		{Name: "c", Description: "make c", AlreadyDone: asks("", false, nil), Run: run},
		{Name: "d", Description: "make d", AlreadyDone: asks("", false, errors.New("no topic yet")), Run: run},
		{Name: "e", Description: "make e", AlreadyDone: asks("would make 3 of e", false, nil), Run: run},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []jobapi.Planned{{Step: "a", Action: "run", Reason: "make a"}, {Step: "b", Action: "skip", Reason: "b is there"}, {Step: "c", Action: "run", Reason: "make c"}, {Step: "d", Action: "run", Reason: "make d; as it is now: no topic yet"}, {Step: "e", Action: "run", Reason: "would make 3 of e"}}
	if d := cmp.Diff(want, plan); d != "" {
		t.Error(d)
	}
	away := fmt.Errorf("read queues: %w: redis://me:canary@host", jobs.ErrUnavailable)
	_, err = e.Plan(t.Context(), "go", &script{steps: []Step{{Name: "a", Description: "make a", AlreadyDone: asks("", false, away), Run: run}}})
	refusal := (*jobapi.Refusal)(nil)
	if !errors.As(err, &refusal) || refusal.Status != 503 || refusal.Code != "UNAVAILABLE" || !strings.Contains(refusal.Message, "Cannot plan a: read queues: ") || strings.Contains(refusal.Message, "canary") {
		t.Errorf("while what it asks is away: %v, want UNAVAILABLE", err)
	}
	if page, err := e.List(t.Context(), jobapi.Query{Limit: 1}); err != nil || len(page.Items) != 0 {
		t.Errorf("jobs: %v, %v", page, err)
	}
}

func TestJ27APlanShowsNoSecretOfWhatItMet(t *testing.T) {
	e := newEngine(t, Limits{})
	plan, err := e.Plan(t.Context(), "go", &script{steps: []Step{{
		Name: "a", Description: "make a",
		AlreadyDone: func(context.Context) (string, bool, error) { return "", false, errors.New("token=hunter2 is bad") },
	}, {
		Name: "b", Description: "make b",
		AlreadyDone: func(context.Context) (string, bool, error) { return "would use token=hunter2", false, nil },
	}}})
	want := []jobapi.Planned{{Step: "a", Action: "run", Reason: "make a; as it is now: token=[redacted] is bad"}, {Step: "b", Action: "run", Reason: "would use token=[redacted]"}}
	if d := cmp.Diff(want, plan); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

func TestJ25PanicFailsTheJobAndShowsOnlyInTheServersLog(t *testing.T) {
	boom := func() { panic("boom token=hunter2") }
	for name, s := range map[string]Step{
		"run":    step("one", func(context.Context, Run) (string, error) { boom(); return "", nil }),
		"done":   {Name: "one", AlreadyDone: func(context.Context) (string, bool, error) { boom(); return "", false, nil }},
		"error":  step("one", func(context.Context, Run) (string, error) { return "", mute(boom) }),
		"goexit": step("one", func(context.Context, Run) (string, error) { runtime.Goexit(); return "", nil }),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, Limits{Exclusive: true})
			var b testlog.Buffer
			e.Logger = slog.New(slog.NewTextHandler(&b, nil))
			j := end(t, e, create(t, e, s, says("two", "")))
			if statuses(j) != "failed failed pending" || j.Error.Code != "INTERNAL" {
				t.Errorf("it is %s, %+v", statuses(j), j.Error)
			}
			shown, _ := json.Marshal(j)
			if all := string(shown) + logOf(t, e, j.ID); strings.Contains(all, "boom") || strings.Contains(all, "engine_test.go") {
				t.Errorf("the panic shows: %s", all)
			}
			log := b.String()
			if name != "goexit" && (!strings.Contains(log, "boom") || !strings.Contains(log, "engine_test.go")) || strings.Contains(log, "hunter2") {
				t.Errorf("the server's log is %s", log)
			}
		})
	}
}

// mute is an error that cannot say what it is.
type mute func()

func (m mute) Error() string { m(); return "" }

func TestJ26EndedJobsAreForgottenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 2, Retain: 3})
		running := create(t, e, waits("one"))
		var all []string
		for range 6 {
			all = append(all, create(t, e, says("one", "")))
			synctest.Wait()
		}
		found, err := e.Get(t.Context(), append(all, running))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, j := range found {
			got = append(got, j.ID)
		}
		if d := cmp.Diff(append(all[3:], running), got); d != "" {
			t.Error(d)
		}
		if _, err := e.Log(t.Context(), all[0], jobapi.LogQuery{Tail: 1}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("log of a forgotten job: %v", err)
		}
		if n := len(e.all); n != 4 {
			t.Errorf("%d jobs are kept", n)
		}
		held := int64(0)
		for _, j := range e.all {
			held += j.log.held.Load()
		}
		if used := e.Logs.Used(); used != held || held == 0 {
			t.Errorf("logs use %d bytes, those of kept jobs %d", used, held)
		}
	})
}

func TestJ07AnItemSaysWhatItsJobDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 1, MaxQueued: 1})
		for range 2 { // one ends, one runs, one waits: each at a time of its own
			create(t, e, step("one", func(ctx context.Context, _ Run) (string, error) {
				select {
				case <-time.After(5 * time.Second):
				case <-ctx.Done():
				}
				return "", nil
			}))
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		create(t, e, says("one", ""))
		synctest.Wait()
		page, err := e.List(t.Context(), jobapi.Query{Limit: 3})
		if err != nil || len(page.Items) != 3 || page.Next != "" {
			t.Fatalf("a page of all three: %+v, %v", page, err)
		}
		for i, want := range []jobs.State{jobs.Queued, jobs.Running, jobs.Succeeded} {
			j := get(t, e, page.Items[i].ID)
			shown := jobapi.Item{ID: j.ID, Scope: "utils", Type: "utils.go", Status: want, CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt}
			if d := cmp.Diff(shown, page.Items[i]); d != "" {
				t.Error(d)
			}
		}
	})
}

func TestJ27NothingThatAStepSaysShowsASecret(t *testing.T) {
	e := newEngine(t, Limits{})
	const canary = "hunter2canary"
	key := "-----BEGIN PRIVATE KEY-----\nMIIE" + canary + "\n-----END PRIVATE KEY-----"
	r := &script{Token: "token=" + canary, steps: []Step{
		{
			Name:        "skip",
			AlreadyDone: func(context.Context) (string, bool, error) { return "password=" + canary, true, nil },
		},
		step("one", func(_ context.Context, r Run) (string, error) {
			for line := range strings.SplitSeq(key, "\n") {
				r.Logf("%s", line)
			}
			r.Logf("more\n%s\nmore", key)
			r.Logf("-----BEGIN PRIVATE KEY-----\nMIIE")
			r.Logf(canary)
			r.Logf("-----END PRIVATE KEY-----")
			r.Logf("\x1b[1mpassword\x1b[0m=%s", canary)
			r.Message("secret: " + canary)
			r.Result(map[string]any{"api_key": canary, "url": "http://u:" + canary + "@h", "n": 1})
			return "Authorization: Bearer " + canary, nil
		}),
	}}
	j, err := e.Create(t.Context(), "go", r)
	if err != nil {
		t.Fatal(err)
	}
	done := end(t, e, j.ID)
	shown, _ := json.Marshal(done)
	if all := string(shown) + logOf(t, e, j.ID); strings.Contains(all, canary) || done.Status != jobs.Succeeded {
		t.Errorf("it shows: %s", all)
	}
	if want := `{"api_key":"[redacted]","n":1,"url":"http://[redacted]@h"}`; string(done.Result) != want {
		t.Errorf("result is %s, want %s", done.Result, want)
	}
}

// TestJ27ALogHidesWhatOnlyTheWholeTextShows has a mnemonic none of whose lines is
// one, nor part of one: each ends with the number of the next word.
func TestJ27ALogHidesWhatOnlyTheWholeTextShows(t *testing.T) {
	const written = "these: 1.\nlegal 2.\nwinner 3.\nthank 4.\nyear 5.\nwave 6.\nsausage 7.\nworth 8.\nuseful 9.\nlegal 10.\nwinner 11.\nthank 12.\nyellow"
	e := newEngine(t, Limits{})
	id := create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
		r.Logf(written)
		return "", nil
	}))
	end(t, e, id)
	if l := logOf(t, e, id); strings.Contains(l, "sausage") || !strings.Contains(l, "these: ") {
		t.Errorf("the log shows: %s", l)
	}
}

func TestResultsAreObjectsOfALimitedSize(t *testing.T) {
	tests := []struct {
		name    string
		results []any
		want    string // in the error, or the result
	}{
		{"none", nil, "{}"},
		{"the last counts", []any{map[string]int{"a": 1}, map[string]int{"a": 2}}, `{"a":2}`},
		{"no object", []any{[]int{1}}, "it is no object"},
		{"null", []any{nil}, "it is no object"},
		{"repaired", []any{nil, struct{}{}}, "{}"},
		{"too long", []any{map[string]string{"a": strings.Repeat("x y ", 1<<18)}}, "at most 1048576"},
		{"no JSON", []any{map[string]any{"f": func() {}}}, "unsupported type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Limits{})
			j := end(t, e, create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
				for _, v := range tt.results {
					r.Result(v)
				}
				return "", nil
			})))
			if got := string(j.Result); j.Status == jobs.Succeeded && got != tt.want || j.Status != jobs.Succeeded && !strings.Contains(j.Error.Message, tt.want) {
				t.Errorf("job is %s: %s, %+v", j.Status, got, j.Error)
			}
		})
	}
}

func TestJ28VersionChangesWithTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{})
		next := make(chan func(Run))
		id := create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
			for f := range next {
				f(r)
			}
			return "", nil
		}))
		var before jobapi.Job
		tests := []struct {
			name string
			f    func(Run)
			same bool
		}{
			{"start", func(Run) {}, false},
			{"message", func(r Run) { r.Message("a") }, false},
			{"the same message", func(r Run) { r.Message("a") }, true},
			{"log", func(r Run) { r.Logf("a") }, true},
			{"result", func(r Run) { r.Result(struct{}{}) }, true},
		}
		for _, tt := range tests {
			next <- tt.f
			synctest.Wait()
			now := get(t, e, id)
			if same := now.Version == before.Version; same != tt.same {
				t.Errorf("%s: version was %q, is %q", tt.name, before.Version, now.Version)
			}
			one, _ := json.Marshal(before)
			two, _ := json.Marshal(now)
			if bytes.Equal(one, two) != tt.same {
				t.Errorf("%s: JSON is %s", tt.name, two)
			}
			before = now
		}
		close(next)
	})
}

func TestJ30CloseCancelsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Limits{MaxRunning: 2, MaxQueued: 1})
		var log bytes.Buffer
		e.Logger = slog.New(slog.NewTextHandler(&log, nil))
		var cause error
		hold := make(chan struct{})
		a := create(t, e, step("one", func(ctx context.Context, r Run) (string, error) {
			r.Message("7 of 9")
			<-ctx.Done()
			cause = context.Cause(ctx)
			time.Sleep(3 * time.Second)
			return "", nil
		}))
		b := create(t, e, step("one", func(context.Context, Run) (string, error) { <-hold; return "", nil }))
		c := create(t, e, says("one", ""))
		synctest.Wait()
		began := time.Now()
		if err := e.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 still run") {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, id := range []string{a, b, c} {
			if j := get(t, e, id); j.Status != jobs.Canceled {
				t.Errorf("job is %s", j.Status)
			}
		}
		if !errors.Is(cause, jobs.ErrDrained) {
			t.Errorf("cause is %v", cause)
		}
		if s := log.String(); strings.Count(s, "id="+c) != 1 || !strings.Contains(s, "id="+a+` type=utils.go reached="step 1/1 one: canceled: 7 of 9"`) {
			t.Errorf("the server's log does not say what it has canceled:\n%s", s)
		}
		var refusal *jobapi.Refusal
		if _, err := e.Create(t.Context(), "go", &script{}); !errors.As(err, &refusal) || refusal.Status != 503 {
			t.Errorf("create: %v", err)
		}
		close(hold)
		synctest.Wait()
	})
}

func TestUnknownOperations(t *testing.T) {
	e := newEngine(t, Limits{})
	var refusal *jobapi.Refusal
	if _, err := e.Create(t.Context(), "none", &script{}); !errors.As(err, &refusal) || refusal.Status != 404 {
		t.Errorf("create: %v", err)
	}
	if _, err := e.Plan(t.Context(), "none", &script{}); !errors.As(err, &refusal) || refusal.Status != 404 {
		t.Errorf("plan: %v", err)
	}
	if e.NewRequest("none") != nil || e.NewRequest("go") == nil || !reflect.DeepEqual(e.Operations(), []string{"go", "load"}) {
		t.Errorf("operations are %v", e.Operations())
	}
}

func TestChangedIsCoalesced(t *testing.T) {
	e := newEngine(t, Limits{})
	first := e.Changed()
	if first != e.Changed() {
		t.Error("two callers wait for different things")
	}
	create(t, e)
	<-first
}
