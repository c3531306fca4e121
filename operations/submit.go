package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/redact"
	"github.com/batchfleet/batchfleet/storage"
)

// submitBatch queues a job for each of many objects and waits for them.
type submitBatch struct {
	jobapi.Options
	pollInterval
	Objects     []string `json:"objects"`
	Kind        string   `json:"kind"`
	Rate        *float64 `json:"ratePerSecond"`
	Concurrency *int64   `json:"concurrency"`
	d           Deps
	retryFor    time.Duration // pollRetryFor; tests have less

	mu   sync.Mutex
	sent []submitted // in the order of Objects; those without an id were not published
}

// submitted is a job of the batch.
type submitted struct {
	JobID  jobs.ID    `json:"jobId"`
	Object string     `json:"object"`
	Status jobs.State `json:"status"`
}

// Check implements [engine.Request].
func (o *submitBatch) Check() error {
	if n := len(o.Objects); n < 1 || n > o.d.Batch.MaxSize {
		return &jobapi.FieldError{Field: "objects", Problem: fmt.Sprintf("must be 1 to %d names, not %d", o.d.Batch.MaxSize, n)}
	}
	for i, name := range o.Objects {
		if err := storage.ValidName(name); err != nil {
			return &jobapi.FieldError{Field: fmt.Sprintf("objects[%d]", i), Problem: err.Error()}
		}
	}
	if o.Kind != "" && !pubsub.ValidKind(o.Kind) {
		return &jobapi.FieldError{Field: "kind", Problem: "must be lower-case letters, digits and -, such as pdf or mock"}
	}
	most := int64(o.d.Batch.MaxConcurrency)
	err := cmp.Or(within("ratePerSecond", &o.Rate, 10, 0.1, 1000), within("concurrency", &o.Concurrency, min(4, most), 1, most), o.checkPoll())
	switch {
	case err != nil:
		return err
	case o.d.Status == nil || o.d.Publish == nil:
		return notSetUp(noPubSub)
	case o.d.Storage == nil:
		return notSetUp(noStorage)
	}
	return nil
}

// Echo implements [engine.Request]. Names may tell more than is wanted; so may a
// word that is no kind of ours.
func (o *submitBatch) Echo() any {
	kind := o.Kind
	if kind != "" && !slices.Contains(o.d.Names.Kinds, kind) {
		kind = "other"
	}
	return struct {
		jobapi.Options
		ObjectCount    int      `json:"objectCount"`
		Kind           string   `json:"kind"`
		RatePerSecond  *float64 `json:"ratePerSecond"`
		Concurrency    *int64   `json:"concurrency"`
		PollIntervalMs *int64   `json:"pollIntervalMs"`
	}{o.Options, len(o.Objects), kind, o.Rate, o.Concurrency, o.PollIntervalMs}
}

// Steps implements [engine.Request].
func (o *submitBatch) Steps() []engine.Step {
	check := engine.Step{Name: "check", Description: "see that " + there(len(o.Objects)), Run: o.check}
	if o.DryRun {
		check.AlreadyDone = o.look
	}
	return []engine.Step{
		check,
		{Name: "publish", Description: "queue a job for each of " + jobs.Count(len(o.Objects), "object"), Run: o.publish},
		{Name: "wait", Description: "wait until all jobs have ended", Run: o.wait},
	}
}

func there(n int) string {
	return jobs.Count(n, "object") + " " + jobs.Are(n) + " there"
}

// look is what a dry run says. It is no error that objects are missing now.
func (o *submitBatch) look(ctx context.Context) (string, bool, error) {
	looking, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	missing, err := o.whatIsMissing(looking)
	switch {
	case err != nil && looking.Err() != nil && ctx.Err() == nil:
		return fmt.Sprintf("see that %s: not all could be asked for in %s, at least %d are missing", there(len(o.Objects)), countTime, len(missing)), false, nil
	case err != nil:
		return "", false, err
	case len(missing) > 0:
		return o.missing(missing).Error(), false, nil
	}
	return there(len(o.Objects)), false, nil
}

// check fails the job before anything is queued if an object is missing.
func (o *submitBatch) check(ctx context.Context, _ engine.Run) (string, error) {
	missing, err := o.whatIsMissing(ctx)
	if err != nil {
		return "", err
	}
	if len(missing) > 0 {
		return "", o.missing(missing)
	}
	return there(len(o.Objects)), nil
}

// whatIsMissing returns the positions of objects that are not there, in order: with
// an error those that it has come to.
func (o *submitBatch) whatIsMissing(ctx context.Context) (missing []int, err error) {
	err = each(ctx, int(*o.Concurrency), len(o.Objects), func(ctx context.Context, i int) error {
		call, cancel := bounded(ctx)
		defer cancel()
		_, err := o.d.Storage.Stat(call, o.Objects[i])
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			o.mu.Lock()
			defer o.mu.Unlock()
			missing = append(missing, i)
			return nil
		}
		return err
	})
	slices.Sort(missing)
	return missing, err
}

func (o *submitBatch) missing(positions []int) error {
	const shown = 5
	var names []string
	for _, i := range positions[:min(shown, len(positions))] {
		// Whole: a part of a secret is known as one less easily.
		names = append(names, fmt.Sprintf("objects[%d] %.100q", i, redact.Text(o.Objects[i])))
	}
	if more := len(positions) - shown; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return &engine.Failure{
		Code: "OBJECTS_MISSING", Details: map[string]any{"missing": len(positions)},
		Err: fmt.Errorf("%d of %d objects are not there, so nothing is queued: %s", len(positions), len(o.Objects), strings.Join(names, ", ")),
	}
}

// publish queues the jobs at the rate asked for. What it has published stays
// published when it fails or is canceled.
func (o *submitBatch) publish(ctx context.Context, r engine.Run) (string, error) {
	r.Logf("jobs that are published go on, also when this one fails or is canceled")
	o.sent = make([]submitted, len(o.Objects))
	pace := time.NewTicker(time.Duration(float64(time.Second) / *o.Rate))
	defer pace.Stop()
	done := 0
	err := each(ctx, int(*o.Concurrency), len(o.Objects), func(ctx context.Context, i int) error {
		if i > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-pace.C:
			}
		}
		job := jobs.Job{ID: jobs.ID(ulid.Make().String()), Kind: jobs.Kind(o.Kind), Input: o.Objects[i], Submitted: time.Now()}
		// Before: the log takes no more lines once this job is canceled.
		r.Logf("objects[%d] is job %s", i, job.ID)
		call, cancel := atMost(ctx, publishTimeout)
		defer cancel()
		if err := pubsub.Submit(call, o.d.Status, o.d.Publish.Publish, job, recordRetry); err != nil {
			r.Logf("job %s of objects[%d] is not published: %v", job.ID, i, err)
			return fmt.Errorf("objects[%d]: %w", i, err)
		}
		r.Logf("job %s of objects[%d] is queued", job.ID, i)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sent[i] = submitted{job.ID, o.Objects[i], jobs.Queued}
		done++
		r.Message(fmt.Sprintf("%d of %s queued", done, jobs.Count(len(o.Objects), "job")))
		return nil
	})
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		return "", fmt.Errorf("%d of %d jobs are queued and go on: %w", done, len(o.Objects), err)
	}
	return jobs.Count(done, "job") + " queued", nil
}

// publishTimeout bounds the queueing of one job: a record that is tried again for
// recordRetry, and a publisher that tries again for some seconds.
const publishTimeout = 45 * time.Second

// batch is the result.
type batch struct {
	Submitted int         `json:"submitted"`
	Succeeded int         `json:"succeeded"`
	Failed    int         `json:"failed"`
	Canceled  int         `json:"canceled"`
	Jobs      []submitted `json:"jobs"`
	Omitted   int         `json:"jobsOmitted"` // left out of jobs, because the names are too long
}

// maxNames bounds the names in a result, in bytes of JSON: that writes & as six.
const maxNames = 512 << 10

func resultOf(all []submitted) batch {
	b := batch{Submitted: len(all), Jobs: []submitted{}}
	size := 0
	for _, s := range all {
		switch s.Status { //nolint:exhaustive // all have ended
		case jobs.Succeeded:
			b.Succeeded++
		case jobs.Failed:
			b.Failed++
		case jobs.Canceled:
			b.Canceled++
		}
		name, _ := json.Marshal(s.Object) // a string always has a form
		if size += len(name); size > maxNames {
			b.Omitted++
			continue
		}
		b.Jobs = append(b.Jobs, s)
	}
	return b
}
