package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/batchfleet/batchfleet/jobs"
)

// Submission is a job to be queued.
type Submission struct {
	ID          jobs.ID
	Kind        jobs.Kind
	Payload     []byte
	Idempotency string   // a key; empty for none
	Request     []byte   // what two submissions with the same key must have in common; their payload when empty
	Uploads     []string // see [Queue.AddUpload]
}

// Submit is [Queue.SubmitJob] for a job of kind zpe.
func (q *Queue) Submit(ctx context.Context, id jobs.ID, payload []byte, idempotency string) (jobs.ID, error) {
	return q.SubmitJob(ctx, Submission{ID: id, Payload: payload, Idempotency: idempotency})
}

// SubmitJob queues a job under its id, which must be a new one: an id that is on record
// is taken for the same call made again, and nothing changes. With an idempotency
// key, not empty, that was used before it queues nothing and returns the earlier
// job's id, or [ErrKeyReused] if the request is not the same. It returns
// [ErrSubmissionOff] and [ErrFull] when nothing is taken.
func (q *Queue) SubmitJob(ctx context.Context, s Submission) (jobs.ID, error) {
	now, id := q.Now(), s.ID
	if len(s.Request) == 0 {
		s.Request = s.Payload
	}
	keys := []string{queueOf(s.Kind), payloadKey(id), statusKey(id), opsKey}
	switch {
	case s.Idempotency == "":
	case plain(string(s.Kind)) == "":
		keys = append(keys, idempotentKey(digest(s.Idempotency)))
	default: // clients of several kinds need not know each other's keys
		keys = append(keys, idempotentKey(digest(string(s.Kind), s.Idempotency)))
	}
	args := []any{string(id), s.Payload, text(now), q.ResultTTL.Milliseconds(), q.MaxQueued, digest(string(s.Request)), q.IdempotencyTTL.Milliseconds(), string(s.Kind)}
	for _, name := range s.Uploads {
		args = append(args, name)
	}
	a, err := q.run(ctx, "submit job", submitScript, keys, args...)
	if err != nil {
		return "", err
	}
	switch a.Text(0) {
	case "ok":
		return id, nil
	case "again":
		return jobs.ID(a.Text(1)), nil
	case "differs":
		return "", ErrKeyReused
	case "input":
		return "", ErrNoUpload
	case "off":
		return "", ErrSubmissionOff
	case "full":
		return "", fmt.Errorf("%w: it holds %d jobs", ErrFull, q.MaxQueued)
	}
	return "", unexpected("submit", a)
}

// Cancel asks for a job to be stopped; to ask again changes nothing. It reports
// the state that the job has ended in already: finished, failed or canceled. A job
// that runs ends later.
func (q *Queue) Cancel(ctx context.Context, id jobs.ID) (ended string, err error) {
	a, err := q.run(ctx, "cancel job", cancelScript, []string{statusKey(id), delayKey, leaseKey(id), cancelsKey},
		string(id), text(q.Now()), q.ResultTTL.Milliseconds(), cancelsKept.Milliseconds())
	if err != nil {
		return "", err
	}
	switch a.Text(0) {
	case "ok":
		return "", nil
	case "ended":
		return a.Text(1), nil
	case "unknown":
		return "", ErrNoJob
	}
	return "", unexpected("cancel job", a)
}

// CancelRequested reports whether somebody has asked for a running job to be stopped.
func (q *Queue) CancelRequested(ctx context.Context, id jobs.ID) (bool, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	v, err := q.rdb.HGet(ctx, statusKey(id), "cancel_requested").Result()
	return v == "1", unavailable("look whether job "+string(id)+" was canceled", err)
}

// digest is the SHA-256 of parts as hexadecimal digits; where one part ends and
// the next begins makes a difference.
func digest(parts ...string) string {
	h := sha256.New()
	var length []byte
	for _, p := range parts {
		length = append(strconv.AppendInt(length[:0], int64(len(p)), 10), ':')
		_, _ = h.Write(length)                                     // a hash takes everything
		_, _ = h.Write(unsafe.Slice(unsafe.StringData(p), len(p))) //nolint:gosec // a copy would be as large, and it is only read
	}
	return hex.EncodeToString(h.Sum(nil))
}
