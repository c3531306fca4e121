package pubsub

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// Publish publishes the message of a job and returns its id.
type Publish func(context.Context, jobs.Job) (string, error)

// ExistsError says that there is a job with an id already.
type ExistsError struct {
	ID    jobs.ID
	State jobs.State // 0 if its status cannot be read
}

func (e *ExistsError) Error() string {
	if e.State == 0 {
		return fmt.Sprintf("there is a job %s already, whose status cannot be read", e.ID)
	}
	return fmt.Sprintf("there is a job %s already: it %s %s", e.ID, e.State.Verb(), e.State)
}

var (
	// ErrKeyUsed means that an idempotency key was used for something else.
	ErrKeyUsed = errors.New("this idempotency key was used for a job of another kind, with other parameters or with another input")
	// ErrNotPublished means that a job is recorded as queued, and that its message could not be published. The
	// same submission made again publishes it; so do workers, after a while.
	ErrNotPublished = errors.New("the job is recorded, but its message could not be published: submit it again with the same idempotency key, or cancel it")
)

// maxKey is the longest idempotency key, in bytes.
const maxKey = 255

// KeyID returns the id of the job that an idempotency key stands for: "key-" and 160 bits of the key's SHA-256. A
// key is 1 to 255 visible ASCII characters.
func KeyID(key string) (jobs.ID, error) {
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("must be 1 to %d visible ASCII characters, without blanks", maxKey)
	}
	return jobs.ID("key-" + digest("idempotency key\x00"+key)), nil
}

// RequestOf returns a text that stands for what is asked for: two submissions with the same one are the same. When it
// is to start does not count. The order of the parameters, blanks and how characters are escaped do not count; that of the inputs does.
func RequestOf(kind jobs.Kind, params json.RawMessage, inputs ...string) (string, error) {
	var value any
	if len(bytes.TrimSpace(params)) > 0 {
		d := json.NewDecoder(bytes.NewReader(params))
		d.UseNumber() // kept as they are
		if err := d.Decode(&value); err != nil {
			return "", err
		}
	}
	var input any = inputs
	switch len(inputs) {
	case 0:
		input = ""
	case 1:
		input = inputs[0]
	}
	text, err := json.Marshal([]any{kind, value, input})
	return digest(string(text)), err
}

// digest returns 160 bits of a text's SHA-256, as 32 letters and digits.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:20]))
}

// SubmitAs is [Submit] of a job with an id that its sender has chosen. If there is a job with that id already, the
// error is an [*ExistsError], and nothing is changed.
func SubmitAs(ctx context.Context, st *status.Store, publish Publish, job jobs.Job, patience time.Duration) (err error) {
	ctx, span, job := submitSpan(ctx, job)
	defer func() { span.EndWith(err) }()
	ours := rand.Text() // a call whose answer was lost, and that was made again, has found its own job
	var found status.Submitted
	err = retryFor(ctx, patience, func() (err error) { found, err = st.SubmitAs(ctx, job, ours); return err })
	switch {
	case err == nil && !found.New && found.Request != ours:
		return &ExistsError{job.ID, found.State}
	case err == nil && later(job):
		return nil
	case err == nil:
		_, err = publish(ctx, job)
	}
	if err != nil {
		return withdraw(ctx, st, job, patience, err)
	}
	_ = st.MarkPublished(ctx, job.ID) // only SubmitOnce looks at it
	return nil
}

// SubmitOnce is [Submit] of a job whose id stands for an idempotency key, see [KeyID], and request for what is asked
// for, see [RequestOf]. If the job is known already, it is not changed, and queued reports false; only its message is
// published, from what is on record of it, if an earlier call was cut off before it had done so. The error wraps
// [ErrKeyUsed] when the key was used for something else, and [ErrNotPublished].
func SubmitOnce(ctx context.Context, st *status.Store, publish Publish, job jobs.Job, request string, patience time.Duration) (queued bool, err error) {
	ctx, span, job := submitSpan(ctx, job)
	defer func() { span.EndWith(err) }()
	var found status.Submitted
	if err := retryFor(ctx, patience, func() (err error) { found, err = st.SubmitAs(ctx, job, request); return err }); err != nil {
		if !neverReached(err) {
			err = fmt.Errorf("%w; %w: the same submission made again finds out", err, ErrMayBeQueued)
		}
		return false, err
	}
	switch {
	case !found.New && found.Request != request:
		return false, ErrKeyUsed
	case !found.New && (found.State != jobs.Queued || found.Published):
		return false, nil
	case found.New && later(job):
		return true, nil
	case !found.New:
		recorded, err := st.Get(ctx, job.ID)
		if err != nil {
			return false, err
		}
		if job, err = st.Job(ctx, recorded); err != nil {
			return false, err
		}
	}
	// What is recorded as queued must be published, also if the caller leaves.
	ctx = context.WithoutCancel(ctx)
	if _, err := publish(ctx, job); err != nil {
		return false, fmt.Errorf("%w: %w", ErrNotPublished, err)
	}
	_ = st.MarkPublished(ctx, job.ID) // else the message is published twice, which does no harm
	return found.New, nil
}
