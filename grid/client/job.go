package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// ErrCanceled means that a job was canceled before a leader had it.
var ErrCanceled = errors.New("job canceled")

// ErrStopped means that the client has stopped before the result of a job came. The job itself goes on.
var ErrStopped = errors.New("client stopped")

// ErrConflict means that another job with the id of this one is unfinished.
var ErrConflict = errors.New("another job with this id is unfinished")

// Error is a leader's refusal of a job.
type Error struct {
	Code    string // such as wire.CodeInvalid
	Message string
	Leader  string // its address
}

func (e *Error) Error() string { return fmt.Sprintf("leader %s: %s: %s", e.Leader, e.Code, e.Message) }

// Job is a job that was submitted. Its methods may be called concurrently.
type Job struct {
	ID wire.GUID

	m       *Multi
	order   uint64 // of submission
	subject string
	payload []byte // nil when it has ended
	size    int    // of the payload
	array   bool   // it is an array
	// contents are put to the leader before the job is sent; nil when it has ended.
	contents []content

	// What follows is guarded by m.mu.

	at       *leader   // that has it or may have it; nil while it is pending
	waits    *pending  // the queue that it is in; nil when it is not pending
	place    int       // its index in waits
	was      []*leader // that may still run it, after it has moved to another leader
	stopPut  func()    // stops the transfer of the contents, if it is under way
	canceled bool
	acked    bool // queued for good
	ended    bool
	result   []byte
	from     *leader   // that has sent result
	others   []*leader // that have sent a result later
	err      error     // why there is no result

	queued, done chan struct{} // made at the first call of Queued or Done
}

// Queued returns a channel that is closed when a leader has queued the job for good: in its journal, if it has one. With a leader of the
// original protocol, which does not tell, the channel is closed when the job ends.
func (j *Job) Queued() <-chan struct{} {
	j.m.mu.Lock()
	defer j.m.mu.Unlock()
	if j.queued == nil {
		j.queued = make(chan struct{})
		if j.acked || j.ended {
			close(j.queued)
		}
	}
	return j.queued
}

// Done returns a channel that is closed when the job has ended.
func (j *Job) Done() <-chan struct{} {
	j.m.mu.Lock()
	defer j.m.mu.Unlock()
	if j.done == nil {
		j.done = make(chan struct{})
		if j.ended {
			close(j.done)
		}
	}
	return j.done
}

// Wait waits for the result of the job. That the job has failed is a result, too. The error is an [*Error] if no leader takes the job,
// [ErrCanceled], [ErrStopped], or the cause of ctx.
func (j *Job) Wait(ctx context.Context) (wire.JobResult, error) {
	payload, err := j.WaitPayload(ctx)
	if err != nil {
		return wire.JobResult{}, err
	}
	return Result{j.ID, payload}.Decode()
}

// WaitPayload is [Job.Wait], and returns the result as the leader has sent it. The caller must not change it.
func (j *Job) WaitPayload(ctx context.Context) ([]byte, error) {
	select {
	case <-j.Done():
		return j.result, j.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Decode reads the payload. It is an error if that is the result of another job.
func (r Result) Decode() (wire.JobResult, error) {
	var result wire.JobResult
	if err := json.Unmarshal(r.Payload, &result); err != nil {
		return wire.JobResult{}, fmt.Errorf("result of job %s: %w", r.JobID, err)
	}
	if result.JobID != r.JobID {
		return wire.JobResult{}, fmt.Errorf("result of job %s: its payload is that of job %s", r.JobID, result.JobID)
	}
	return result, nil
}

func (j *Job) frame() wire.Frame {
	return wire.Frame{Type: wire.SubmitJob, MsgID: j.ID, Subject: j.subject, Payload: j.payload}
}

// leave takes the job off its leader's count, and stops the transfer of its contents. m.mu is held.
func (j *Job) leave() {
	if j.stopPut != nil {
		j.stopPut()
		j.stopPut = nil
	}
	if j.at != nil {
		j.at.inFlight--
		j.m.inFlight--
		j.at = nil
	}
}

// arrived takes the job from its leader, as its result is here. Leaders that may still run it learn that when the result is taken for good: if
// this process dies before, the next one must get no result that says that it was canceled. m.mu is held.
func (j *Job) arrived() {
	if j.at != nil && j.at != j.from {
		j.was = append(j.was, j.at)
	}
	j.leave()
	j.stopWaiting()
}

// callOff cancels the job at all leaders that may run it, except the one that has sent its result. m.mu is held.
func (j *Job) callOff() {
	for _, l := range append(j.was, j.at) {
		if l != nil && l != j.from {
			l.cancel(j.ID)
		}
	}
	j.was = nil
	j.leave()
	j.stopWaiting()
}

// end ends the job. m.mu is held.
func (j *Job) end(result []byte, err error) {
	j.callOff()
	j.ended, j.result, j.err, j.payload, j.contents = true, result, err, nil, nil
	if j.queued != nil && !j.acked {
		close(j.queued)
	}
	if j.done != nil {
		close(j.done)
	}
	delete(j.m.jobs, j.ID)
	j.m.window.release(j.size)
}
