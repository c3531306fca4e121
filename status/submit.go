package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// ErrEnded says that a job cannot be canceled because it has ended.
var ErrEnded = errors.New("job has ended")

// Submit records a job as queued. It reports false, and changes nothing, if the
// job is known already, whatever its state.
func (s *Store) Submit(ctx context.Context, job jobs.Job) (bool, error) {
	known, err := s.submit(ctx, job)
	return known.New, err
}

// Submitted is what is on record of a job that was submitted.
type Submitted struct {
	New   bool       // it was recorded just now
	State jobs.State // 0 if nothing is known of the job, or its document cannot be read
	Known bool       // there is a job
	// Request is what [Store.SubmitAs] was told that it was submitted as; empty if it was submitted otherwise.
	Request   string
	Published bool // its message was, or will be once it is due: [Store.MarkPublished] was called, or an attempt has begun
}

// SubmitAs is Submit of a job whose id its sender has chosen, so that it may be known already: request, a
// short text, stands for what is asked for, by which the same submission made again is told from another.
func (s *Store) SubmitAs(ctx context.Context, job jobs.Job, request string) (Submitted, error) {
	return s.submit(ctx, job, "request", request)
}

// MarkPublished records that the message of a job was published that was submitted with [Store.SubmitAs].
func (s *Store) MarkPublished(ctx context.Context, id jobs.ID) error {
	pipe := s.rdb.TxPipeline()
	pipe.HSet(ctx, detailKey(id), "published", 1)
	pipe.Expire(ctx, detailKey(id), TTL)
	_, err := pipe.Exec(ctx)
	return unavailable(fmt.Sprintf("mark job %s", id), err)
}

// Submitted returns what SubmitAs would find of a job, and changes nothing.
func (s *Store) Submitted(ctx context.Context, id jobs.ID) (Submitted, error) {
	pipe := s.rdb.Pipeline()
	doc, detail := pipe.GetRange(ctx, jobKey(id), 0, maxDocument), pipe.HMGet(ctx, detailKey(id), "request", "published", "attempt", "next_at")
	if _, err := pipe.Exec(ctx); err != nil {
		return Submitted{}, unavailable(fmt.Sprintf("read job %s", id), err)
	}
	got := Submitted{Known: doc.Val() != ""}
	if d, ok := parseDocument(doc.Val()); ok {
		got.State = d.State()
	}
	fields := detail.Val()
	got.Request, _ = fields[0].(string)
	got.Published = fields[1] != nil || fields[2] != nil || fields[3] != nil
	return got, nil
}

// submit records a job with these fields of its detail beside its own.
func (s *Store) submit(ctx context.Context, job jobs.Job, fields ...any) (Submitted, error) {
	created := createdAt(job, time.Now())
	doc := Document{Status: words[jobs.Queued], Message: MessageQueued}.text()
	kept, due := ttlSeconds, int64(0)
	if delay := time.Until(job.NotBefore); delay > 0 {
		kept, due = ttlSeconds+int64(delay/time.Second), job.NotBefore.UnixMilli()
	}
	args := append(append([]any{kept, doc, created, paramsText(job), due}, s.jobFields(job)...), fields...)
	list := func(pipe redis.Pipeliner) {
		for _, key := range []string{indexKey, stateIndexKey(jobs.Queued), kindIndexKey(string(job.Kind))} {
			pipe.ZAddNX(ctx, key, redis.Z{Score: float64(created * 1000), Member: string(job.ID)})
			s.together.after(ctx, pipe, key)
		}
		if due > 0 {
			pipe.ZAddNX(ctx, delayedKey, redis.Z{Score: float64(due), Member: string(job.ID)})
		}
		tell(ctx, pipe, []move{{id: job.ID, count: count{cameIn, 1}}})
	}
	got, err := submitScript.Run(ctx, beside{s.rdb, list}, []string{jobKey(job.ID), detailKey(job.ID), paramsKey(job.ID), claimKey(job.ID)}, args...)
	if err != nil {
		return Submitted{}, unavailable(fmt.Sprintf("submit job %s", job.ID), err)
	}
	if got.Text(0) == "new" {
		return Submitted{New: true, Known: true, State: jobs.Queued}, nil
	}
	_ = s.move(ctx, move{
		id: job.ID, state: stateOf(got.Text(1)), created: got.Number(2), others: []jobs.State{jobs.Queued}, quiet: true,
		kind: got.Text(5), left: indexedKind(string(job.Kind)), count: count{cameIn, -1},
	})
	return Submitted{Known: true, State: stateOf(got.Text(1)), Request: got.Text(3), Published: got.Text(4) != ""}, nil
}

// Cancel asks for a job to be stopped. A queued job is canceled at once and
// never starts; a running one is told within seconds, so its state is Running
// still when Cancel returns. The error wraps [fs.ErrNotExist] when nothing is
// known of the job and [ErrEnded] when it has ended already.
func (s *Store) Cancel(ctx context.Context, id jobs.ID) (jobs.State, error) {
	head, tail := Document{Status: words[jobs.Canceled], Message: messageCanceled}.halves()
	what := fmt.Sprintf("cancel job %s", id)
	got, err := s.run(ctx, what, cancelScript, jobKeys(id), ttlSeconds, head, tail, time.Now().UnixMilli(), s.LogCap) // created at that time, if nothing says when
	if err != nil {
		return 0, err
	}
	switch got.Text(0) {
	case "asked":
		return jobs.Running, nil
	case "canceled":
		_ = s.move(ctx, move{
			id: id, state: jobs.Canceled, created: got.Number(1), others: []jobs.State{jobs.Queued, jobs.Running}, kind: got.Text(2),
			left: string(UnknownKind), count: ended(jobs.Canceled),
		})
		return jobs.Canceled, nil
	case "absent":
		return 0, fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case "ended":
		state := stateOf(got.Text(3))
		_ = s.move(ctx, move{id: id, state: state, created: got.Number(1), others: []jobs.State{jobs.Queued, jobs.Running}, kind: got.Text(2), quiet: true})
		return state, fmt.Errorf("%s: %w", what, ErrEnded)
	}
	return 0, unavailable(what, got.Unexpected())
}
