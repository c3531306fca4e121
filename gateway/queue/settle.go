package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// Result is what a worker reports of a job that it has done.
type Result struct {
	JSON    string // the object, as it was received
	Summary string
	Freqs   string
	// Artifacts are those that must have arrived whole: see [Queue.AddArtifact].
	Artifacts []Artifact
	Meta      string // JSON; does not count when a report is compared with what is on record
}

// Recorded says how a result was taken.
type Recorded struct {
	Duplicate bool          // it was on record already
	Took      time.Duration // since the job was leased; 0 when Duplicate or not known
	Waited    time.Duration // from its submission to then; 0 when Duplicate or not known
}

// Finish records the result of a job. The error is [jobs.ErrLeaseLost] when the
// lease is not the caller's (any more) and [ErrFinished] when the job has
// finished under this lease with another result, byte by byte. A result whose
// lease was taken back is kept for [Queue.AcceptLate]; then late is true.
func (q *Queue) Finish(ctx context.Context, c Caller, id jobs.ID, lease string, r Result) (rec Recorded, late bool, err error) {
	now := q.Now()
	list, sums, err := listed(r.Artifacts)
	if err != nil {
		return Recorded{}, false, err
	}
	content := digest(r.JSON, r.Summary, r.Freqs)
	if list != "" {
		content = digest(r.JSON, list)
	}
	args := []any{
		string(id), lease, content, r.JSON, r.Summary, r.Freqs, r.Meta, q.ResultTTL.Milliseconds(), text(now), q.LateTTL.Milliseconds(), string(c.Kind), list,
	}
	a, err := q.runAs(ctx, c, "record result", finishScript, []string{
		leaseKey(id), indexKey, statusKey(id), payloadKey(id), retryKey(id),
		resultKey(id), summaryKey(id), freqsKey(id), reapedKey(id), lateKey(id), artifactsKey(id), uploadsKey(id, lease),
	}, append(args, sums...)...)
	if err != nil {
		return Recorded{}, false, err
	}
	switch a.Text(0) {
	case "ok":
		if a.Text(1) == "" {
			return rec, false, nil // the status was lost meanwhile, and with it when the job was leased
		}
		leased := parseUnix(a.Text(1))
		rec.Took = max(0, now.Sub(leased))
		if created, err := time.Parse(time.RFC3339Nano, a.Text(2)); err == nil {
			rec.Waited = max(0, leased.Sub(created))
		}
		return rec, false, nil
	case "again":
		return Recorded{Duplicate: true}, false, nil
	case "differs":
		return Recorded{}, false, ErrFinished
	case "incomplete":
		return Recorded{}, false, fmt.Errorf("%w: %s", ErrIncomplete, a.Text(1))
	case "late":
		return Recorded{}, true, jobs.ErrLeaseLost
	}
	return Recorded{}, false, unexpected("record result", a)
}

// RetryPolicy is what a [Failure] asks for.
type RetryPolicy string

// The ways to treat a failure.
const (
	Retry           RetryPolicy = "retry" // run it again as often as the rules allow
	RetryByKind     RetryPolicy = "kind"  // run it again after Failure.Waits; not of zpe
	Final           RetryPolicy = "final" // it would fail again
	ReturnUncounted RetryPolicy = "back"  // the worker is stopping: run it again at once, and do not count
)

// Failure is what a worker reports of a job that it could not do.
type Failure struct {
	Code, Message, Traceback string
	RetryPolicy              RetryPolicy
	// Waits are the times before a job runs again after its 1st, 2nd, … failure, and so say how
	// often it does, with RetryByKind. These failures are counted apart from lost leases.
	Waits []time.Duration
}

// FailResult says what has become of a failed job.
type FailResult struct {
	Requeued  bool
	Dead      bool // it is among the dead letters now
	Retries   int
	Duplicate bool // the report was known already; nothing has changed
}

// Fail records that a run of a job has failed. The error is [jobs.ErrLeaseLost]
// when the lease is not the caller's (any more), and [ErrReported] when it was
// ended by a report with other content.
func (q *Queue) Fail(ctx context.Context, c Caller, id jobs.ID, lease string, f Failure) (FailResult, error) {
	now := q.Now()
	args := []any{
		string(id), lease, digest(f.Code, f.Message, f.Traceback, string(f.RetryPolicy)), f.Code, f.Message, f.Traceback, string(f.RetryPolicy),
		q.ResultTTL.Milliseconds(), text(now), q.LateTTL.Milliseconds(), strconv.Itoa(maxUncounted), string(c.Kind),
	}
	again := q.runAts(now)
	if f.RetryPolicy == RetryByKind {
		again = nil
		for _, wait := range f.Waits {
			again = append(again, unix(now.Add(wait)))
		}
	}
	a, err := q.runAs(ctx, c, "record failure", failScript, []string{
		leaseKey(id), indexKey, statusKey(id), retryKey(id), failedAckKey(id, lease), queueKey, delayKey, dlqKey,
	}, append(args, again...)...)
	if err != nil {
		return FailResult{}, err
	}
	switch a.Text(0) {
	case "ok":
		became := a.Text(1)
		return FailResult{Requeued: became == "delayed" || became == "queued", Dead: became == "dead", Retries: int(a.Number(2)), Duplicate: a.Text(3) != ""}, nil
	case "differs":
		return FailResult{}, ErrReported
	}
	return FailResult{}, unexpected("record failure", a)
}
