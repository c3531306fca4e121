package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Job is where a job stands.
type Job struct {
	ID                                 jobs.ID
	Kind                               jobs.Kind
	Status                             string // queued, started, finished, failed
	Detail                             string
	CreatedAt, UpdatedAt               string // RFC 3339
	Worker                             string
	ErrorCode, ErrorMessage, Traceback string // of the last failure
	Retries, Done, Total               int
	Attempt                            int // which run of the job this is, or was the last, from 1; 0 before the first, or if it is not known
	CancelRequested                    bool
	LeasedAt, FirstLeasedAt            time.Time // of its last run, and of its first since it was submitted or queued again; zero before
	RunAfter                           time.Time // when a delayed job runs again; zero otherwise
	WorkerName                         string    // what Worker is called; empty if that is not on record (any more)

	unread error // why there is nothing but the id
}

// State returns by which state the job is listed: its status, unless it was canceled.
func (j *Job) State() string {
	if j.Status == Failed && j.Detail == Canceled {
		return Canceled
	}
	return j.Status
}

// Jobs returns where jobs stand, in two round trips: those of the ids that are on
// record, in their order. There are no tracebacks. A job whose key somebody else
// has written to is left out.
func (q *Queue) Jobs(ctx context.Context, ids []jobs.ID) ([]Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	list, err := q.jobs(ctx, names, false)
	return slices.DeleteFunc(list, func(j Job) bool { return j.Status == "" }), err
}

// Job returns where a job stands, or [ErrNoJob].
func (q *Queue) Job(ctx context.Context, id jobs.ID) (Job, error) {
	list, err := q.jobs(ctx, []string{string(id)}, true)
	if err != nil {
		return Job{}, err
	}
	switch j := list[0]; {
	case j.unread != nil:
		return Job{}, j.unread
	case j.Status == "":
		return Job{}, ErrNoJob
	default:
		return j, nil
	}
}

// jobs reads jobs in two round trips at most; those that are not on record have no
// status. One whose key somebody else has written to has a Detail about it,
// and hides no other. Tracebacks, which may be large, are read if whole is set.
func (q *Queue) jobs(ctx context.Context, ids []string, whole bool) ([]Job, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.Pipeline()
	status, retries := make([]*redis.SliceCmd, len(ids)), make([]*redis.StringCmd, len(ids))
	delays := make([]*redis.FloatCmd, len(ids))
	fields := jobFields
	if whole {
		fields = append(slices.Clip(fields), "traceback")
	}
	for i, id := range ids {
		status[i] = pipe.HMGet(ctx, statusKey(jobs.ID(id)), fields...)
		retries[i] = pipe.Get(ctx, retryKey(jobs.ID(id)))
		delays[i] = pipe.ZScore(ctx, delayKey, id)
	}
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return nil, unavailable("read jobs", err)
	}
	list := make([]Job, len(ids))
	for i, id := range ids {
		values, err := status[i].Result()
		if err != nil {
			list[i] = Job{ID: jobs.ID(id), Detail: "somebody else has written to " + statusKey(jobs.ID(id)), unread: unavailable("read job "+id, err)}
			continue
		}
		f := make(map[string]string, len(fields))
		for k, v := range values {
			if text, ok := v.(string); ok {
				f[fields[k]] = text
			}
		}
		n, _ := strconv.Atoi(retries[i].Val())
		failures, _ := strconv.Atoi(f["failures"])
		n += failures
		done, _ := strconv.Atoi(f["done"])
		total, _ := strconv.Atoi(f["total"])
		list[i] = Job{
			ID: jobs.ID(id), Kind: plain(f["kind"]), Status: f["status"], Detail: f["detail"], CreatedAt: f["created_at"], UpdatedAt: f["updated_at"],
			Worker: f["worker_id"], ErrorCode: f["error_code"], ErrorMessage: f["error_message"], Traceback: f["traceback"],
			Retries: n, Done: done, Total: total, CancelRequested: f["cancel_requested"] == "1",
			LeasedAt: leasedAt(f["leased_at"]), FirstLeasedAt: leasedAt(f["first_leased_at"]), Attempt: attemptOf(f, n),
		}
		if list[i].Status == "queued" && delays[i].Err() == nil {
			list[i].RunAfter = fromUnix(delays[i].Val())
		}
	}
	return list, q.nameWorkers(ctx, list)
}

// jobFields are the fields of a status that a Job shows, but for the traceback.
var jobFields = []string{
	"status", "detail", "created_at", "updated_at", "worker_id", "error_code", "error_message", "done", "total", "cancel_requested",
	"leased_at", "first_leased_at", "attempt", "kind", "failures",
}

func leasedAt(s string) time.Time {
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0 && f < 1e11 {
		return fromUnix(f)
	}
	return time.Time{}
}

// attemptOf returns which run of a job this is. One from before there was a field
// for it is known by the runs that have failed, while those are counted.
func attemptOf(f map[string]string, retries int) int {
	if n, err := strconv.Atoi(f["attempt"]); err == nil && n > 0 {
		return n
	}
	if f["status"] == Started {
		return retries + 1
	}
	return retries
}

// nameWorkers fills in what the workers of jobs are called.
func (q *Queue) nameWorkers(ctx context.Context, list []Job) error {
	names := map[string]*redis.StringCmd{}
	pipe := q.rdb.Pipeline()
	for _, j := range list {
		if j.Worker != "" && names[j.Worker] == nil {
			names[j.Worker] = pipe.HGet(ctx, workerKey(j.Worker), "name")
		}
	}
	if len(names) == 0 {
		return nil
	}
	err := redisdb.Exec(ctx, pipe)
	for i, j := range list {
		if name := names[j.Worker]; name != nil && name.Err() == nil {
			list[i].WorkerName = name.Val()
		}
	}
	return unavailable("read workers", err)
}

// Payload returns what a job is asked to do, as it was sent. It is empty once the job has
// finished, was canceled or dropped, or has expired.
func (q *Queue) Payload(ctx context.Context, id jobs.ID) (string, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	payload, err := q.rdb.Get(ctx, payloadKey(id)).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return payload, unavailable("read payload", err)
}

// Result returns the result of a job that has finished. Otherwise the error is
// [ErrNoJob], or wraps [ErrNotEnded] and names the state.
func (q *Queue) Result(ctx context.Context, id jobs.ID) (string, error) {
	return q.stored(ctx, id, resultKey(id))
}

// Summary returns the text that came with the result; errors are those of Result.
func (q *Queue) Summary(ctx context.Context, id jobs.ID) (string, error) {
	return q.stored(ctx, id, summaryKey(id))
}

// Freqs returns the table that came with the result; errors are those of Result.
func (q *Queue) Freqs(ctx context.Context, id jobs.ID) (string, error) {
	return q.stored(ctx, id, freqsKey(id))
}

// Sizes returns how many bytes they have, without reading them; errors are those of Result.
func (q *Queue) Sizes(ctx context.Context, id jobs.ID) (result, summary, freqs int64, err error) {
	var sizes [3]*redis.IntCmd
	err = q.finished(ctx, id, func(pipe redis.Pipeliner) {
		for i, key := range []string{resultKey(id), summaryKey(id), freqsKey(id)} {
			sizes[i] = pipe.StrLen(ctx, key)
		}
	})
	return sizes[0].Val(), sizes[1].Val(), sizes[2].Val(), err
}

func (q *Queue) stored(ctx context.Context, id jobs.ID, key string) (string, error) {
	var content *redis.StringCmd
	if err := q.finished(ctx, id, func(pipe redis.Pipeliner) { content = pipe.Get(ctx, key) }); err != nil {
		return "", err
	}
	return content.Val(), nil
}

// finished reads what a job that has finished left, at one moment.
func (q *Queue) finished(ctx context.Context, id jobs.ID, read func(redis.Pipeliner)) error {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.TxPipeline()
	status, kept := pipe.HGet(ctx, statusKey(id), "status"), pipe.Exists(ctx, resultKey(id))
	read(pipe)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return unavailable("read result", err)
	}
	switch {
	case status.Val() == "":
		return ErrNoJob
	case status.Val() == "finished" && kept.Val() == 0:
		return ErrNoJob // its time is over
	case status.Val() != "finished":
		return fmt.Errorf("%w: it is %s", ErrNotEnded, status.Val())
	}
	return nil
}

// IsOfKind returns nil if a job is of a kind, and otherwise [ErrNoJob]. One that is not on
// record counts as of kind zpe.
func (q *Queue) IsOfKind(ctx context.Context, id jobs.ID, kind jobs.Kind) error {
	is, err := q.KindOf(ctx, id)
	if err == nil && is != plain(string(kind)) {
		err = ErrNoJob
	}
	return err
}

// KindOf returns the kind of a job; that of one that is not on record is empty.
func (q *Queue) KindOf(ctx context.Context, id jobs.ID) (jobs.Kind, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	kind, err := q.rdb.HGet(ctx, statusKey(id), "kind").Result()
	return plain(kind), unavailable("read kind of job "+string(id), err)
}
