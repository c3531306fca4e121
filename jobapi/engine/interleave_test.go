package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// A play is an engine whose jobs are made, canceled, put out of time, watched and
// stopped by several goroutines at once, as a seed has it.
type play struct {
	e    *Engine
	gate chan struct{} // what steps wait for that do not heed their context

	mu       sync.Mutex
	ids      []string
	seen     map[string]jobapi.Job
	canceled map[string]jobapi.Time // what a successful Cancel said
	entered  map[string][]bool      // whether each step was called
	faults   []string
}

func (p *play) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// step returns a step of one of the ways to behave.
func (p *play) step(i, way int, r *rand.Rand) Step {
	name := strconv.Itoa(i)
	loops := r.IntN(4)
	s := step(name, func(ctx context.Context, run Run) (string, error) {
		p.mu.Lock()
		p.entered[run.ID()][i] = true
		p.mu.Unlock()
		for n := range loops {
			run.Logf("line %d", n)
			run.Message(name + strconv.Itoa(n))
			run.Result(map[string]int{"n": n})
			runtime.Gosched()
		}
		switch way {
		case 0, 1, 2:
			return "ok", nil
		case 3:
			<-ctx.Done()
			return "", context.Cause(ctx)
		case 4:
			<-p.gate
			return "late", nil
		case 5:
			select {
			case <-p.gate:
			case <-ctx.Done():
			}
			return "either", nil
		case 6:
			return "", errors.New("no")
		default:
			runtime.Goexit()
			return "", nil
		}
	})
	if way == 8 {
		s.AlreadyDone = func(context.Context) (string, bool, error) { return "there", true, nil }
	}
	return s
}

func (p *play) create(r *rand.Rand) {
	request := &script{}
	for i := range r.IntN(4) {
		request.steps = append(request.steps, p.step(i, r.IntN(9), r))
	}
	p.mu.Lock() // steps wait for it to know their job
	defer p.mu.Unlock()
	j, err := p.e.Create(context.Background(), [...]string{"go", "load"}[r.IntN(2)], request)
	var refusal *jobapi.Refusal
	switch {
	case errors.As(err, &refusal):
		return
	case err != nil:
		p.fault("create: %v", err)
		return
	}
	p.ids = append(p.ids, j.ID)
	p.entered[j.ID] = make([]bool, len(request.steps))
}

// some returns one of the jobs, or "".
func (p *play) some(r *rand.Rand) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ids) == 0 {
		return ""
	}
	return p.ids[r.IntN(len(p.ids))]
}

func (p *play) act(r *rand.Rand) {
	ctx := context.Background()
	switch r.IntN(8) {
	case 0, 1:
		p.create(r)
	case 2:
		id := p.some(r)
		if id == "" {
			return
		}
		j, err := p.e.Cancel(ctx, id)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil {
			if _, twice := p.canceled[id]; twice || j.Status != jobs.Canceled {
				p.fault("job %s was canceled as %s, before: %v", id, j.Status, twice)
			}
			p.canceled[id] = j.FinishedAt
		} else if !errors.Is(err, jobapi.ErrEnded) || !j.Status.Terminal() {
			p.fault("cancel: %v, job is %s", err, j.Status)
		}
	case 3:
		p.e.mu.Lock()
		if n := len(p.e.all); n > 0 {
			p.e.expire(p.e.all[r.IntN(n)])
		}
		p.e.mu.Unlock()
	case 4:
		_, _ = p.e.Log(ctx, p.some(r), jobapi.LogQuery{Tail: 2})
	case 5:
		page, err := p.e.List(ctx, jobapi.Query{Limit: 2})
		if err != nil || len(page.Items) == 2 && page.Items[0].ID <= page.Items[1].ID {
			p.mu.Lock()
			p.fault("list: %+v, %v", page, err)
			p.mu.Unlock()
		}
	default:
		p.look(p.some(r))
	}
}

// look holds a job against the promises and against what was seen of it before.
func (p *play) look(id string) {
	p.mu.Lock() // so that what is seen later is later
	defer p.mu.Unlock()
	found, err := p.e.Get(context.Background(), []string{id})
	if err != nil || len(found) == 0 {
		return
	}
	j := found[0]
	before, known := p.seen[id]
	p.seen[id] = j
	same := known && equal(before, j)
	if known && before.Status.Terminal() && !same {
		p.fault("job changed after its end:\n%+v\n%+v", before, j)
	}
	if known && before.Status == jobs.Running && j.Status == jobs.Queued || known && (before.Version == j.Version) != same {
		p.fault("job went from\n%+v to\n%+v", before, j)
	}
	ended := j.Status.Terminal()
	if ended == j.FinishedAt.IsZero() || (j.Status == jobs.Succeeded) != (j.Result != nil) || (j.Status == jobs.Failed) != (j.Error != nil) {
		p.fault("job is %s: finished %v, result %s, error %+v", j.Status, j.FinishedAt, j.Result, j.Error)
	}
	if j.Progress.Completed > j.Progress.Total || j.Progress.Total != len(j.Steps) || j.Progress.Current > j.Progress.Total {
		p.fault("progress is %+v", j.Progress)
	}
	if at, ok := p.canceled[id]; ok && (j.Status != jobs.Canceled || at != j.FinishedAt) {
		p.fault("job was canceled at %v, but is %s, finished at %v", at, j.Status, j.FinishedAt)
	}
	p.lookAtSteps(j)
}

// equal does what reflect.DeepEqual does, a hundred times as fast.
func equal(a, b jobapi.Job) bool {
	return a.Status == b.Status && a.CreatedAt == b.CreatedAt && a.StartedAt == b.StartedAt && a.FinishedAt == b.FinishedAt && a.Progress == b.Progress &&
		slices.Equal(a.Steps, b.Steps) && bytes.Equal(a.Request, b.Request) && bytes.Equal(a.Result, b.Result) && reflect.DeepEqual(a.Error, b.Error)
}

func (p *play) lookAtSteps(j jobapi.Job) {
	for i, s := range j.Steps {
		if s.Name != strconv.Itoa(i) {
			p.fault("step %d is %s", i, s.Name)
		}
		done := s.Status == jobapi.Skipped || s.Status == jobapi.Succeeded
		began := done || s.Status == jobapi.Running || s.Status == jobapi.Failed
		if s.Status != jobapi.Canceled && s.StartedAt.IsZero() == began || done && s.FinishedAt.IsZero() ||
			j.Status.Terminal() && s.Status == jobapi.Running || j.Status == jobs.Succeeded && !done ||
			i > 0 && !s.StartedAt.IsZero() && j.Steps[i-1].Status != jobapi.Skipped && j.Steps[i-1].Status != jobapi.Succeeded {
			p.fault("job is %s, step %d of %+v", j.Status, i, j.Steps)
		}
		if j.Status.Terminal() && s.StartedAt.IsZero() && p.entered[j.ID][i] {
			p.fault("step %d of a job that is %s was called, but never started", i, j.Status)
		}
	}
}

// idle waits until no job runs.
func (e *Engine) idle() {
	e.lock()
	defer e.mu.Unlock()
	for len(e.running) > 0 {
		e.free.Wait()
	}
}

func (p *play) run(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // for tests
	p.e.Limits.Exclusive = r.IntN(4) == 0
	p.create(r)
	var all sync.WaitGroup
	for range 2 {
		own := rand.New(rand.NewPCG(seed, r.Uint64())) //nolint:gosec // for tests
		all.Go(func() {
			for range 5 {
				p.act(own)
			}
		})
	}
	all.Wait()
	closes := r.IntN(4) == 0
	if closes {
		all.Go(func() {
			if err := p.e.Close(context.Background()); err != nil {
				p.mu.Lock()
				p.fault("%v", err)
				p.mu.Unlock()
			}
		})
	}
	close(p.gate)
	for _, id := range p.ids {
		if !closes {
			_, _ = p.e.Cancel(context.Background(), id)
		}
		p.look(id)
	}
	all.Wait()
	p.e.idle()
	for _, id := range p.ids {
		p.look(id)
		if !p.seen[id].Status.Terminal() {
			p.fault("job is %s", p.seen[id].Status)
		}
	}
	if !closes {
		for range p.e.Limits.MaxRunning { // a whole set can start: no place is lost
			if _, err := p.e.Create(context.Background(), "go", &script{steps: []Step{waits("x")}}); err != nil {
				p.fault("create: %v", err)
			}
		}
	}
	if err := p.e.Close(context.Background()); err != nil {
		p.fault("%v", err)
	}
	return p.faults
}

// TestJ28EveryInterleavingKeepsThePromises proves J-15 to J-18, J-21 and J-28:
// one outcome a job, for good; no result with an error; no step after the end; no
// place lost.
func TestJ28EveryInterleavingKeepsThePromises(t *testing.T) {
	plays := 100_000
	if testing.Short() {
		plays = 2000
	} else if testrun.Race {
		plays = 10_000 // each takes ten times as long
	}
	metrics := NewMetrics(prometheus.NewRegistry())
	budget := &LogBudget{}
	var all sync.WaitGroup
	players := runtime.GOMAXPROCS(0) + 1
	for worker := range players {
		all.Go(func() {
			for seed := worker; seed < plays && !t.Failed(); seed += players {
				p := &play{
					e: &Engine{
						Scope: "utils", Logs: budget, Metrics: metrics, Limits: Limits{MaxRunning: 1 + seed%2, MaxQueued: seed % 3},
						Supported: []Operation{{Name: "go"}, {Name: "load", Load: true}},
					},
					gate: make(chan struct{}), seen: map[string]jobapi.Job{}, canceled: map[string]jobapi.Time{}, entered: map[string][]bool{},
				}
				for _, fault := range p.run(uint64(seed)) { //nolint:gosec // not negative
					t.Errorf("seed %d: %s", seed, fault)
				}
				for _, j := range p.e.ended {
					budget.forget(j.log)
				}
				metrics.mu.Lock()
				metrics.engines = nil // they are many
				metrics.mu.Unlock()
			}
		})
	}
	all.Wait()
	if used := budget.Used(); used != 0 {
		t.Errorf("logs that are forgotten hold %d bytes", used)
	}
}

func TestJ15OneOfStartAndCancelWins(t *testing.T) {
	for range 1000 {
		e := &Engine{Scope: "utils", Limits: Limits{MaxRunning: 1, MaxQueued: 1}, Supported: []Operation{{Name: "go"}}}
		release := make(chan struct{})
		create(t, e, step("hold", func(context.Context, Run) (string, error) { <-release; return "", nil }))
		ran := false
		id := create(t, e, step("one", func(context.Context, Run) (string, error) { ran = true; return "", nil }))
		var all sync.WaitGroup
		var err error
		all.Go(func() { _, err = e.Cancel(t.Context(), id) })
		close(release)
		all.Wait()
		e.idle()
		j := get(t, e, id)
		switch {
		case err == nil && j.Status == jobs.Canceled && j.StartedAt.IsZero() && !ran:
		case err == nil && j.Status == jobs.Canceled && !j.StartedAt.IsZero(): // it was canceled while it ran
		case errors.Is(err, jobapi.ErrEnded) && j.Status == jobs.Succeeded && ran:
		default:
			t.Fatalf("cancel: %v, job is %s, its step ran: %v", err, statuses(j), ran)
		}
	}
}

func TestJ17OneOfSuccessAndCancelWins(t *testing.T) {
	won := map[jobs.State]int{}
	for range 1000 {
		e := &Engine{Scope: "utils", Supported: []Operation{{Name: "go"}}}
		release := make(chan struct{})
		id := create(t, e, step("one", func(_ context.Context, r Run) (string, error) {
			r.Result(map[string]int{"a": 1})
			<-release
			return "", nil
		}))
		var all sync.WaitGroup
		var err error
		all.Go(func() { _, err = e.Cancel(t.Context(), id) })
		close(release)
		all.Wait()
		first := end(t, e, id)
		e.idle()
		j := get(t, e, id)
		if !reflect.DeepEqual(first, j) || (err == nil) != (j.Status == jobs.Canceled) || (j.Status == jobs.Succeeded) != (j.Result != nil) || j.Error != nil {
			t.Fatalf("cancel: %v, job was %+v, is %+v", err, first, j)
		}
		won[j.Status]++
	}
	t.Logf("who won: %v", won)
}
