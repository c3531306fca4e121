package router

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// handOverTime is enough to connect to a leader first.
const handOverTime = 10 * time.Second

var (
	errFull = errors.New("this connection has as many unfinished jobs, or bytes of them, as the router allows: submit the job later")
	errBlob = errors.New("a router does not pass on blobs: give the content of the files, or submit the job to a leader")
)

// job is a job that is passed on.
type job struct {
	*client.Job // nil while it is being submitted for the first time
	exec        string
	told        bool // SubmitAck was sent; guarded by session.mu
}

// submit passes a job on. The error ends the connection.
func (s *session) submit(ctx context.Context, f wire.Frame) error {
	request, code, err := s.check(&f)
	if err != nil {
		return s.refuseJob(f.MsgID, request.ExecName, code, err)
	}
	room := ctx
	if s.Has(wire.FeatureError) {
		// Refuse the job at once instead of waiting: the client's next frames may be the acknowledgments that make room.
		full, cancel := context.WithCancelCause(ctx)
		cancel(errFull)
		room = full
	}
	known := s.expect(request)
	taken, err := s.multi.SubmitPayload(room, request.JobID, request.ExecName, f.Payload)
	if err != nil && !known {
		s.forget(request.JobID, nil)
	}
	switch {
	case errors.Is(err, errFull):
		return s.refuseJob(f.MsgID, request.ExecName, wire.CodeBusy, errFull)
	case errors.Is(err, client.ErrConflict):
		return s.refuseJob(f.MsgID, request.ExecName, wire.CodeConflict, client.ErrConflict)
	case err != nil:
		return err // the client at the leaders has ended
	}
	s.mu.Lock()
	j := s.jobs[request.JobID]
	if j != nil && j.Job == taken { // submitted again
		j.told = false
		s.mu.Unlock()
		select {
		case <-j.Queued():
			s.tellQueued(j)
		default:
		}
		return nil
	}
	if j == nil || j.Job != nil { // there was one that has ended
		j = &job{exec: request.ExecName}
		s.jobs[request.JobID] = j
	}
	j.Job = taken
	s.mu.Unlock()
	s.router.Metrics.submit()
	s.beside.Go(func() { s.follow(context.WithoutCancel(ctx), j) })
	return nil
}

// check reads a SubmitJob, or returns why it is refused; then ExecName is taken from the subject.
func (s *session) check(f *wire.Frame) (request wire.Submit, code string, err error) {
	request, err = wire.ReadSubmitJob(f, s.Name)
	if err == nil && len(request.Blobs) > 0 {
		err = errBlob
	}
	if err != nil {
		request.ExecName, _ = wire.ExecOf(f.Subject)
		return request, wire.CodeInvalid, err
	}
	if err := s.router.Access.ACL().Submit(s.principal, s.Name, request.ExecName); err != nil {
		return request, wire.CodeForbidden, s.Denied(s.router.Log, err)
	}
	return request, "", nil
}

func (s *session) refuseJob(id wire.GUID, exec, code string, err error) error {
	s.router.Metrics.refused(code)
	return s.Send(s.RefusalFrame(id, exec, code, err.Error())...)
}

// expect adds a job before it is sent to a leader, and reports whether it was there already.
func (s *session) expect(request wire.Submit) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[request.JobID] != nil {
		return true
	}
	s.jobs[request.JobID] = &job{exec: request.ExecName}
	return false
}

// forget removes a job that has ended, unless it was submitted again.
func (s *session) forget(id wire.GUID, ended *client.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil && j.Job == ended {
		delete(s.jobs, id)
	}
}

// tellQueued sends SubmitAck for a job, once.
func (s *session) tellQueued(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(j, j.ID)
}

// tell is tellQueued with s.mu held.
func (s *session) tell(j *job, id wire.GUID) {
	if s.Has(wire.FeatureSubmitAck) && !j.told {
		j.told = true
		_ = s.Send(wire.Frame{Type: wire.SubmitAck, Payload: wire.AppendGUIDs(nil, id)})
	}
}

// follow tells the client that a job is queued or refused. The result comes to session.result.
func (s *session) follow(ctx context.Context, j *job) {
	<-j.Queued()
	select {
	case <-j.Done(): // perhaps all leaders have refused it
	default:
		s.tellQueued(j)
	}
	<-j.Done()
	s.forget(j.ID, j.Job)
	s.router.Metrics.end()
	_, err := j.WaitPayload(ctx)
	if told, ok := errors.AsType[*client.Error](err); ok {
		_ = s.refuseJob(j.ID, j.exec, told.Code, errors.New(told.Message))
	}
	if errors.Is(err, client.ErrCanceled) { // no leader had the job, so none sends a result
		for _, f := range s.FailedFrame(j.ID, j.exec, wire.ReasonCanceled, "canceled before a leader had the job") {
			s.deliver(f)
		}
	}
}

// handOver waits for a while until leaders have queued the jobs of a client that has closed its connection and does not know SubmitAck. Such a
// client does not submit them again: it relies on what it has written.
func (s *session) handOver(ctx context.Context) {
	if s.Has(wire.FeatureSubmitAck) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.jobs))
	s.mu.Unlock()
	for _, j := range all {
		select {
		case <-j.Queued():
		case <-ctx.Done():
			return
		}
	}
}

// result passes a result on to the client. It is acknowledged to the leader when the client has acknowledged it.
func (s *session) result(r client.Result) error {
	s.router.Metrics.result()
	s.mu.Lock()
	if j := s.jobs[r.JobID]; j != nil {
		s.tell(j, r.JobID) // before its result
	}
	s.mu.Unlock()
	s.deliver(wire.Frame{Type: wire.Result, MsgID: r.JobID, CorrID: r.JobID, Subject: wire.ResultSubject(s.Name, r.JobID), Payload: r.Payload})
	return client.ErrLater
}

// deliver sends a result. For a client without ResultAck it counts as acknowledged when it is written. If it cannot be sent, the connection has
// ended, and the leader keeps the result.
func (s *session) deliver(f wire.Frame) {
	if s.Has(wire.FeatureResultAck) {
		_ = s.Send(f)
		return
	}
	_ = s.SendWith(f, f.MsgID)
}

// written acknowledges results that were written to a client without ResultAck.
func (s *session) written(ids []wire.GUID) { s.multi.Acknowledge(ids...) }
