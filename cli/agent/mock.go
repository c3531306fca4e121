package agent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// mock is the handler of kind mock: it calculates nothing, in as many steps and
// as much time as it is told. What it does is drawn from the job's id.
type mock struct {
	store              storage.Store
	minSteps, maxSteps int
	minStep, maxStep   time.Duration
}

func mockResult(id jobs.ID) string { return "results/" + string(id) + "/result.json" }

// Run implements [worker.Handler].
func (m mock) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(job.ID)) // a hash never fails
	random := rand.New(rand.NewPCG(seed.Sum64(), 0))
	steps := m.minSteps + random.IntN(m.maxSteps-m.minSteps+1)
	for i := range steps {
		report(jobs.Progress{Done: i, Total: steps, Step: "mock", Message: fmt.Sprintf("step %d of %d", i+1, steps)})
		if err := jobs.Sleep(ctx, m.minStep+time.Duration(random.Float64()*float64(m.maxStep-m.minStep))); err != nil {
			return jobs.Result{}, err
		}
	}
	body := fmt.Sprintf(`{"result":{"simulated":true,"job_id":%q,"steps":%d},"summary_text":"Simulated in %d steps.\n","freqs_csv":"mode,frequency_cm1\n","meta":{"timestamp":%q}}`,
		job.ID, steps, steps, time.Now().UTC().Format(time.RFC3339))
	if err := m.store.Put(ctx, mockResult(job.ID), strings.NewReader(body)); err != nil {
		return jobs.Result{}, err
	}
	return jobs.Result{Object: mockResult(job.ID), Pages: steps}, nil
}

// Earlier implements [worker.Handler].
func (m mock) Earlier(ctx context.Context, job jobs.Job) (jobs.Result, bool, error) {
	_, err := m.store.Stat(ctx, mockResult(job.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return jobs.Result{}, false, nil
	}
	return jobs.Result{Object: mockResult(job.ID)}, err == nil, err
}

// forget deletes what Run has stored of a job.
func (m mock) forget(ctx context.Context, id jobs.ID) error {
	return m.store.Delete(ctx, mockResult(id))
}
