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
	Log       Log    // the last lines of the job; likewise
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
	one := ResultOf{Job: id, Lease: lease, Result: r}
	if one.size() > maxGrouped {
		v := q.FinishAll(ctx, c, []ResultOf{one})[0]
		return v.Recorded, v.Late, v.Err
	}
	call, err := finishCall(c, one)
	if err != nil {
		return Recorded{}, false, err
	}
	now := q.Now()
	v := recordedOf(now, q.do(ctx, q.results, call))
	return v.Recorded, v.Late, v.Err
}

// maxGrouped is how large a result may be that goes to Redis together with those of others.
const maxGrouped = 64 << 10

// ResultOf is the result of one job.
type ResultOf struct {
	Job   jobs.ID
	Lease string
	Result
}

func (r *Result) size() int {
	n := len(r.JSON) + len(r.Summary) + len(r.Freqs) + len(r.Meta)
	for _, line := range r.Log.Lines {
		n += len(line)
	}
	return n + len(r.Artifacts)*128
}

// Verdict is what [Queue.Finish] returns of one result.
type Verdict struct {
	Recorded
	Late bool
	Err  error
}

// FinishAll is Finish for several results, [MaxBatch] at most. Each has its own verdict.
func (q *Queue) FinishAll(ctx context.Context, c Caller, results []ResultOf) []Verdict {
	verdicts := make([]Verdict, len(results))
	var calls []workerCall
	var asked []int
	for i, r := range results {
		call, err := finishCall(c, r)
		if err != nil {
			verdicts[i].Err = err
			continue
		}
		calls, asked = append(calls, call), append(asked, i)
	}
	now := q.Now()
	for n, a := range q.runEach(ctx, "record results", finishScript, q.finishRules(), calls) {
		verdicts[asked[n]] = recordedOf(now, a)
	}
	return verdicts
}

// finishRules are the arguments of the script that all calls share.
func (q *Queue) finishRules() []any {
	return append([]any{text(q.Now()), q.ResultTTL.Milliseconds(), q.LateTTL.Milliseconds()}, q.logRules()...)
}

func finishCall(c Caller, r ResultOf) (workerCall, error) {
	list, sums, err := listed(r.Artifacts)
	if err != nil {
		return workerCall{}, err
	}
	content := digest(r.JSON, r.Summary, r.Freqs)
	if list != "" {
		content = digest(r.JSON, list)
	}
	args := []any{string(r.Job), r.Lease, content, r.JSON, r.Summary, r.Freqs, r.Meta, string(c.Kind), list, len(r.Artifacts)}
	args = append(append(args, r.Log.args()...), sums...)
	return workerCall{c, append(args, r.Log.lines()...)}, nil
}

func recordedOf(now time.Time, a scriptReply) (v Verdict) {
	if a.err != nil {
		v.Err = a.err
		return v
	}
	switch a.Text(0) {
	case "ok":
		if a.Text(1) == "" {
			return v // the status was lost meanwhile, and with it when the job was leased
		}
		leased := parseUnix(a.Text(1))
		v.Took = max(0, now.Sub(leased))
		if created, err := time.Parse(time.RFC3339Nano, a.Text(2)); err == nil {
			v.Waited = max(0, leased.Sub(created))
		}
	case "again":
		v.Duplicate = true
	case "differs":
		v.Err = ErrFinished
	case "incomplete":
		v.Err = fmt.Errorf("%w: %s", ErrIncomplete, a.Text(1))
	case "late":
		v.Late, v.Err = true, jobs.ErrLeaseLost
	default:
		v.Err = unexpected("record result", a.Reply)
	}
	return v
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
