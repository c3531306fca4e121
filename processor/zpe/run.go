package zpe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfleet/batchfleet/jobs"
)

// attempt is one attempt at a job.
type attempt struct {
	*Handler
	Payload
	job   jobs.Job
	began time.Time
	dir   string
	qe    string // version of pw.x
	found []pseudo
	runs  int // of pw.x, all together

	mu      sync.Mutex
	done    int
	message string
	report  func(jobs.Progress)
}

// Run implements the worker's handler. Errors are causes of ctx, wrap
// [jobs.ErrUnavailable], or are a *[jobs.Failure] with one of the codes of this
// package. A job that has failed or was canceled keeps its checkpoints until
// [Handler.Forget].
func (h *Handler) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	p, err := ParsePayload([]byte(job.Payload))
	if err != nil {
		return jobs.Result{}, final(CodeInvalidInput, "%w", err)
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if p.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, p.Timeout)
	}
	defer cancel()
	dir, done, err := h.workDir()
	if err != nil {
		return jobs.Result{}, err
	}
	defer done()
	a := &attempt{Handler: h, Payload: p, job: job, began: time.Now(), dir: dir, report: report}
	result, err := a.all(limited)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return jobs.Result{}, context.Cause(ctx)
	case limited.Err() != nil:
		return jobs.Result{}, failure(CodeTimeout, "the job did not end within its timeout_s of %g s (%s)", p.Timeout.Seconds(), a.where())
	}
	return jobs.Result{}, err
}

// Earlier implements the worker's handler: it finds the result of an attempt at
// the same payload that ended before its outcome could be recorded.
func (h *Handler) Earlier(ctx context.Context, job jobs.Job) (jobs.Result, bool, error) {
	var d Document
	found, err := h.getJSON(ctx, resultName(job.ID), &d)
	if err != nil {
		return jobs.Result{}, false, fmt.Errorf("look for an earlier result: %w", err)
	}
	if !found || d.Result.InputSHA256 != payloadDigest(job) {
		return jobs.Result{}, false, nil
	}
	return jobs.Result{Object: resultName(job.ID), Pages: d.Result.Runs}, true, nil
}

func payloadDigest(job jobs.Job) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(job.Payload))) }

// all does the job, step by step.
func (a *attempt) all(ctx context.Context) (jobs.Result, error) {
	mobile, _ := a.System.mobile()
	a.runs = 6 * len(mobile)
	if a.Relax {
		a.runs++
	}
	a.reportStep("check", "Checking pw.x and its pseudopotentials...")
	var err error
	if a.found, err = a.pseudos(&a.System); err != nil {
		return jobs.Result{}, err
	}
	if a.qe, err = a.version(ctx, a.dir); err != nil {
		return jobs.Result{}, err
	}
	start := a.System.positions()
	rest := checkpoint{Positions: start}
	if a.Relax {
		if rest, err = a.one(ctx, step{name: "relaxation", input: a.System.write(start, true), relax: true, at: start}); err != nil {
			return jobs.Result{}, err
		}
	}
	displaced, err := a.displaceAll(ctx, rest.Positions, mobile)
	if err != nil {
		return jobs.Result{}, err
	}
	d := a.document(rest, displaced)
	a.reportStep("store", "Storing the result...")
	if err := a.putJSON(ctx, resultName(a.job.ID), d); err != nil {
		return jobs.Result{}, fmt.Errorf("store result: %w", err)
	}
	return jobs.Result{Object: resultName(a.job.ID), Pages: a.runs}, nil
}

// step is one run of pw.x in an attempt.
type step struct {
	number int // from 0, which a relaxation is; names its checkpoint
	name   string
	input  string
	relax  bool
	at     [][3]float64 // positions that it starts from
}

// displaced is what was computed with one coordinate moved up and down.
type displaced struct{ plus, minus checkpoint }

// displaceAll computes the forces with every coordinate of the mobile atoms
// displaced, Parallel runs at once. The first error ends the others.
func (a *attempt) displaceAll(ctx context.Context, rest [][3]float64, mobile []int) ([]displaced, error) {
	out := make([]displaced, 3*len(mobile))
	runs, runCtx := errgroup.WithContext(ctx)
	runs.SetLimit(max(1, a.Parallel))
	for i, s := range a.steps(rest, mobile) {
		if runCtx.Err() != nil {
			break
		}
		runs.Go(func() error {
			c, err := a.one(runCtx, s)
			if i%2 == 0 {
				out[i/2].plus = c
			} else {
				out[i/2].minus = c
			}
			return err
		})
	}
	err := runs.Wait()
	return out, cmp.Or(context.Cause(ctx), err) // why the attempt was stopped says more than what came of it
}

// steps lists the displaced runs: for each coordinate up, then down.
func (a *attempt) steps(rest [][3]float64, mobile []int) []step {
	first := a.runs - 6*len(mobile)
	var all []step
	for _, atom := range mobile {
		for axis := range 3 {
			for _, sign := range []float64{1, -1} {
				at := slices.Clone(rest)
				at[atom][axis] += sign * a.Delta
				all = append(all, step{
					number: first + len(all),
					name:   fmt.Sprintf("atom %d %c%c", atom, map[float64]byte{1: '+', -1: '-'}[sign], "xyz"[axis]),
					input:  a.System.write(at, false), at: at,
				})
			}
		}
	}
	return all
}

// one returns what a run yields, from its checkpoint if there is one; otherwise
// it is run and its checkpoint stored.
func (a *attempt) one(ctx context.Context, s step) (checkpoint, error) {
	id, sum := a.job.ID, digest(s.input, a.qe, a.found)
	a.reportStep("fetch", "")
	c, found, err := a.earlierRun(ctx, id, s.number, sum, len(a.System.Atoms))
	if err != nil {
		return checkpoint{}, err
	}
	title := fmt.Sprintf("Run %d/%d, %s", s.number+1, a.runs, s.name)
	if found {
		a.finished(title + ": done by an earlier attempt")
		return c, nil
	}
	stepName := "displace"
	if s.relax {
		stepName = "relax"
	}
	a.reportStep(stepName, title+": starting pw.x")
	out, took, err := a.pwx(ctx, a.dir, pwRun{
		input: s.input, relax: s.relax, atoms: len(a.System.Atoms), pseudos: a.found, version: a.qe,
		progress: func(o *output) { a.reportStep(stepName, title+": "+o.progress()) },
	})
	if err != nil {
		return checkpoint{}, during(s.name, err)
	}
	c = checkpoint{Digest: sum, Energy: out.energy, Forces: out.forces, Positions: s.at, Seconds: took.Seconds()}
	if s.relax {
		c.Positions = out.final
	}
	a.reportStep("store", "")
	if err := a.putJSON(ctx, runName(id, s.number), c); err != nil {
		return checkpoint{}, fmt.Errorf("store checkpoint: %w", err)
	}
	a.finished(title + ": done")
	return c, nil
}

// reportStep reports a message; if it is empty, the last one stays.
func (a *attempt) reportStep(step, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if message != "" {
		a.message = message
	}
	a.report(jobs.Progress{Done: a.done, Total: a.runs, Step: step, Message: a.message})
}

// finished reports that one more run is done.
func (a *attempt) finished(message string) {
	a.mu.Lock()
	a.done++
	a.mu.Unlock()
	a.reportStep("displace", message)
}

// where tells how far the job has come.
func (a *attempt) where() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("%d of %d runs of pw.x are done and kept", a.done, a.runs)
}
