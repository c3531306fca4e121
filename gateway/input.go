package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
	"github.com/batchfleet/batchfleet/worker"
)

// InputObject is where the input of a job is in the worker's store while the job runs. Several are below it, by their
// numbers.
func InputObject(id jobs.ID) string { return "inputs/" + string(id) }

// inputObjects returns where n inputs of a job are, if it has several.
func inputObjects(id jobs.ID, n int) (objects []string) {
	for i := range n {
		objects = append(objects, fmt.Sprintf("%s/%04d", InputObject(id), i+1)) // in the order of their names, too
	}
	return objects
}

// Handler returns a handler for one of a.Kinds that fetches the inputs of a job, if it has any,
// into the worker's store before h runs it.
func (a *Agent) Handler(h worker.Handler) worker.Handler { return &withInput{h, a} }

type withInput struct {
	worker.Handler
	agent *Agent
}

// TimeLimit implements [worker.TimeLimiter].
func (w *withInput) TimeLimit() time.Duration {
	if h, ok := w.Handler.(worker.TimeLimiter); ok {
		return h.TimeLimit()
	}
	return 0
}

// Run implements [worker.Handler].
func (w *withInput) Run(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
	job, err := w.fetch(ctx, job, report)
	if err != nil {
		return jobs.Result{}, err
	}
	return w.Handler.Run(ctx, job, report)
}

// RunAttempt implements [worker.AttemptHandler].
func (w *withInput) RunAttempt(ctx context.Context, a jobs.Attempt) (result jobs.Result, err error) {
	if a.Job, err = w.fetch(ctx, a.Job, a.Report); err != nil {
		return jobs.Result{}, err
	}
	if h, ok := w.Handler.(worker.AttemptHandler); ok {
		return h.RunAttempt(ctx, a)
	}
	return w.Handler.Run(ctx, a.Job, a.Report)
}

// Earlier implements [worker.Handler]. A result in the worker's store names the inputs as they are there.
func (w *withInput) Earlier(ctx context.Context, job jobs.Job) (jobs.Result, bool, error) {
	if w.agent.isNew(job.ID) {
		return jobs.Result{}, false, nil
	}
	if job.Input != "" {
		job.Input = InputObject(job.ID)
	}
	job.Inputs = inputObjects(job.ID, len(job.Inputs))
	return w.Handler.Earlier(ctx, job)
}

// Discard implements [worker.Discarder].
func (w *withInput) Discard(ctx context.Context, job jobs.Job) error {
	if h, ok := w.Handler.(worker.Discarder); ok {
		return h.Discard(ctx, job)
	}
	return nil
}

// jobOf takes apart the payload of a kind beside zpe: the job has its parameters as payload,
// and the gateway's names of its inputs.
func jobOf(payload json.RawMessage) (params, input string, inputs []string, err error) {
	p, err := wire.ParsePayload(payload)
	if err != nil {
		return "", "", nil, errBadResponse("a payload of another form: " + err.Error())
	}
	return string(p.Params), p.Input, p.Inputs, nil
}

// fetch copies the inputs of a job into the worker's store, and returns the job with those.
func (w *withInput) fetch(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Job, error) {
	if job.Input == "" && len(job.Inputs) == 0 || job.Input == InputObject(job.ID) {
		return job, nil
	}
	plane, ok := w.agent.Gateway.(FilePlane)
	h := w.agent.running(job.ID)
	switch {
	case !ok:
		return job, &jobs.Failure{Code: "INPUT_UNAVAILABLE", Err: errors.New("this control plane has no inputs")}
	case h == nil:
		return job, fmt.Errorf("fetch inputs: %w", jobs.ErrLeaseLost)
	}
	lease := LeaseOf{Kind: h.Kind, Job: h.JobID, ID: h.LeaseID}
	open := func(number int) opener {
		return func(ctx context.Context, from int64) (io.ReadCloser, string, error) {
			return plane.Input(ctx, lease, number, from)
		}
	}
	in := inputReader{ctx: ctx, open: open(0), what: "the input", report: report}
	if job.Input != "" {
		job.Input = InputObject(job.ID)
		return job, w.fetchOne(job.Input, in)
	}
	of := len(job.Inputs)
	job.Inputs = inputObjects(job.ID, of)
	for i, object := range job.Inputs {
		in.open, in.what = open(i+1), fmt.Sprintf("input %d of %d", i+1, of)
		if err := w.fetchOne(object, in); err != nil {
			return job, err
		}
	}
	return job, nil
}

// fetchOne copies one input into an object.
func (w *withInput) fetchOne(object string, in inputReader) error {
	in.report(jobs.Progress{Step: "fetch", Message: "fetching " + in.what})
	err := in.into(w.agent.Store, object)
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == wire.InputNotFound {
		return &jobs.Failure{Code: "INPUT_MISSING", Final: true, Err: fmt.Errorf("the gateway does not have %s of the job any more", in.what)}
	}
	if err != nil {
		return fmt.Errorf("fetch %s: %w", in.what, err)
	}
	return nil
}

// running returns the lease under which a job runs, nil if there is none.
func (a *Agent) running(job jobs.ID) *heldLease {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.leases {
		if h.JobID == job && h.claimed && h.State == stepRunning {
			return h
		}
	}
	return nil
}

// opener opens something in the gateway at an offset, and returns the SHA-256 of all of it.
type opener func(ctx context.Context, from int64) (content io.ReadCloser, sum string, err error)

// inputReader reads an input, or a checkpoint, and goes on where it was when a connection breaks.
type inputReader struct {
	ctx    context.Context //nolint:containedctx // of one Put, which has the same
	open   opener
	what   string // it is, for people
	report func(jobs.Progress)

	body   io.ReadCloser
	cancel context.CancelFunc
	sum    string
	hash   hash.Hash
	n      int64
	told   time.Time
}

// into copies it into an object.
func (r *inputReader) into(store storage.Store, object string) error {
	r.hash = sha256.New()
	defer r.close()
	return store.Put(r.ctx, object, r)
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// inputSilence is how long an input may stand still before it is asked for again.
const inputSilence = time.Minute

// Read implements [io.Reader].
func (r *inputReader) Read(p []byte) (int, error) {
	for wait := deliveries.Delays(); ; {
		n, err := r.try(p)
		e := (*Error)(nil)
		switch {
		case n > 0, err == nil:
			return n, nil
		case errors.Is(err, io.EOF):
			if hex.EncodeToString(r.hash.Sum(nil)) != r.sum {
				return 0, fmt.Errorf("%w: %s has arrived as something else", jobs.ErrUnavailable, r.what)
			}
			return 0, io.EOF
		case r.ctx.Err() != nil:
			return 0, context.Cause(r.ctx)
		case errors.As(err, &e) && e.Code == wire.RangeNotSatisfied && r.n > 0:
			// The connection broke when all of it had come.
			r.body, r.cancel = io.NopCloser(eof{}), func() {}
			continue
		case errors.As(err, &e) && e.decided() && !e.unauthorized():
			if e.Status == http.StatusConflict {
				return 0, fmt.Errorf("%w: %w", jobs.ErrLeaseLost, err)
			}
			return 0, err
		}
		r.close()
		if err := jobs.Sleep(r.ctx, wait.Next()); err != nil {
			return 0, err
		}
	}
}

// try reads once, from a connection that it opens if there is none.
func (r *inputReader) try(p []byte) (int, error) {
	if r.body == nil {
		ctx, cancel := context.WithCancel(r.ctx)
		body, sum, err := r.open(ctx, r.n)
		if err != nil {
			cancel()
			return 0, err
		}
		r.body, r.cancel, r.sum = body, cancel, sum
	}
	silent := time.AfterFunc(inputSilence, r.cancel)
	n, err := r.body.Read(p)
	silent.Stop()
	r.hash.Write(p[:n])
	r.n += int64(n)
	if n > 0 && time.Since(r.told) > progressEvery {
		r.told = time.Now()
		r.report(jobs.Progress{Step: "fetch", Message: fmt.Sprintf("fetching %s, %d MiB", r.what, r.n>>20)})
	}
	return n, err
}

func (r *inputReader) close() {
	if r.body != nil {
		_ = r.body.Close() // it was only read
		r.cancel()
		r.body = nil
	}
}
