package queue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/batchfleet/batchfleet/jobs"
)

// Ops are the operators' switches. Each is on until it is switched off.
type Ops struct {
	Submission, Dequeue bool
}

// Ops returns the switches.
func (q *Queue) Ops(ctx context.Context) (Ops, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	v, err := q.rdb.HMGet(ctx, opsKey, "submission_enabled", "dequeue_enabled").Result()
	if err != nil {
		return Ops{}, unavailable("read switches", err)
	}
	return Ops{Submission: v[0] != "0", Dequeue: v[1] != "0"}, nil
}

// SetOps sets the switches that are not nil, and returns them all.
func (q *Queue) SetOps(ctx context.Context, submission, dequeue *bool) (Ops, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	var fields []any
	set := func(name string, on *bool) {
		if on != nil {
			fields = append(fields, name, *on)
		}
	}
	set("submission_enabled", submission)
	set("dequeue_enabled", dequeue)
	if len(fields) > 0 {
		if err := q.rdb.HSet(ctx, opsKey, fields...).Err(); err != nil {
			return Ops{}, unavailable("set switches", err)
		}
	}
	return q.Ops(ctx)
}

// DeadLetters is [Queue.DeadLettersOf] kind zpe.
func (q *Queue) DeadLetters(ctx context.Context, offset, limit int) (list []Job, total int, err error) {
	return q.DeadLettersOf(ctx, KindZPE, offset, limit)
}

// DeadLettersOf returns dead letters of a kind from number offset on, the newest first, and
// how many there are. The limit must be positive.
func (q *Queue) DeadLettersOf(ctx context.Context, kind jobs.Kind, offset, limit int) (list []Job, total int, err error) {
	if limit < 1 {
		return nil, 0, fmt.Errorf("list dead letters: limit %d is not positive", limit)
	}
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.TxPipeline()
	ids, length := pipe.LRange(ctx, dlqOf(kind), int64(offset), int64(offset+limit-1)), pipe.LLen(ctx, dlqOf(kind))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, unavailable("list dead letters", err)
	}
	if len(ids.Val()) > 0 {
		list, err = q.jobs(ctx, ids.Val(), false)
	}
	return list, int(length.Val()), err
}

// Requeue queues a dead letter again, with all its re-runs before it. The error is
// [ErrNoJob] if it is no job, [ErrNotDead], which wraps that, if it is no dead
// letter, and [ErrPayloadMissing] if there is nothing to run.
func (q *Queue) Requeue(ctx context.Context, id jobs.ID) error {
	a, err := q.run(ctx, "requeue dead letter", requeueScript,
		[]string{dlqKey, queueKey, statusKey(id), payloadKey(id), retryKey(id)}, string(id), text(q.Now()), q.ResultTTL.Milliseconds())
	if err != nil {
		return err
	}
	return map[string]error{"unknown": ErrNoJob, "elsewhere": ErrNotDead, "payload": ErrPayloadMissing}[a.Text(0)]
}

// Drop deletes a dead letter for good, or returns [ErrNoJob] or [ErrNotDead].
func (q *Queue) Drop(ctx context.Context, id jobs.ID) error {
	a, err := q.run(ctx, "drop dead letter", dropScript, []string{dlqKey, payloadKey(id), retryKey(id), statusKey(id)}, string(id))
	switch {
	case err != nil:
		return err
	case a.Number(0) < 0:
		return ErrNotDead
	case a.Number(0) == 0:
		return ErrNoJob
	}
	return nil
}

// Late is a result that came after its lease was taken back.
type Late struct {
	Worker, LeaseID, ReceivedAt string
	JSON, Summary, Freqs, Meta  string
}

// Late returns the late result of a job, or [ErrNoJob].
func (q *Queue) Late(ctx context.Context, id jobs.ID) (Late, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	f, err := q.rdb.HGetAll(ctx, lateKey(id)).Result()
	if len(f) == 0 {
		return Late{}, cmp.Or(unavailable("read late result", err), ErrNoJob)
	}
	return Late{f["worker_id"], f["lease_id"], f["received_at"], f["result"], f["summary"], f["freqs"], f["meta"]}, nil
}

// AcceptLate makes the late result of a job its result; whoever runs the job now
// loses it. The error is [ErrNoJob] if there is none, [ErrAlreadyFinished] if the
// job has a result.
func (q *Queue) AcceptLate(ctx context.Context, id jobs.ID) error {
	a, err := q.run(ctx, "accept late result", acceptScript, []string{
		lateKey(id), statusKey(id), leaseKey(id), indexKey, delayKey, dlqKey,
		resultKey(id), summaryKey(id), freqsKey(id), payloadKey(id), retryKey(id), reapedKey(id), artifactsKey(id),
	}, string(id), text(q.Now()), q.ResultTTL.Milliseconds())
	if err != nil {
		return err
	}
	return map[string]error{"unknown": ErrNoJob, "finished": ErrAlreadyFinished}[a.Text(0)]
}
