package leader

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// op is what an event is about.
type op uint8

const (
	helloClient op = iota + 1
	helloWorker
	gone
	submit
	credit
	accept
	ack
	renew
	cancel
	handBack
	delivered
	written
	drainWorker
	query
	report
)

// event is something that a peer has said, checked and ready for the state.
type event struct {
	op       op
	peer     schedule.PeerID
	job      wire.GUID
	attempt  wire.GUID
	name     string
	n        int
	features []string
	ids      []wire.GUID
	info     *schedule.WorkerInfo
	submit   *schedule.Submission
	ended    *schedule.Ended
	renew    *wire.RenewInfo
	report   *wire.ReportInfo
}

// put gives events to the loop. While it is busy the peer's reader waits, and with it the peer.
func (l *Leader) put(events ...event) {
	select {
	case l.inbox <- events:
	case <-l.ended:
	}
}

// maxRead is how many frames of a peer are read before its events are given to the loop.
const maxRead = 64

// batches have room for the events of so many frames. The loop gives them back.
var batches = sync.Pool{New: func() any { return make([]event, 0, maxRead) }}

// read reads frames until the connection ends.
func (l *Leader) read(p *peer) error {
	for {
		f, err := p.Receive()
		if err != nil {
			return err
		}
		batch := batches.Get().([]event)
		for {
			if batch, err = l.frame(p, f, batch); err != nil {
				break
			}
			if len(batch) >= maxRead || !p.Ready() {
				break
			}
			if f, err = p.Receive(); err != nil {
				break
			}
		}
		if len(batch) > 0 {
			l.put(batch...)
		}
		if err != nil {
			return err
		}
	}
}

// maxIgnored is how many frames without a meaning are borne.
const maxIgnored = 10_000

// frame adds what a frame means to a batch of events.
func (l *Leader) frame(p *peer, f wire.Frame, batch []event) ([]event, error) {
	e := event{peer: p.id, job: f.CorrID, attempt: f.MsgID}
	fromClient := p.Name != ""
	switch {
	case f.Type == wire.SubmitJob && fromClient:
		return l.submitted(p, f, batch)
	case f.Type == wire.ResultAck && fromClient:
		ids, err := wire.GUIDs(f.Payload)
		if err != nil {
			return batch, err
		}
		e.op, e.ids = delivered, ids
	case f.Type == wire.Cancel && fromClient:
		e.op, e.name = cancel, p.Name
	case f.Type == wire.Query && fromClient:
		e.op, e.name = query, p.Name
	case f.Type == wire.AckJob && !fromClient:
		return l.acked(p, f, batch)
	case f.Type == wire.Credit && !fromClient:
		e.op = credit
		if n, ok := wire.ParseCredit(f.Payload); ok {
			e.n = n
		}
	case f.Type == wire.Accept && !fromClient:
		e.op = accept
	case f.Type == wire.Renew && !fromClient:
		var info wire.RenewInfo
		err := json.Unmarshal(f.Payload, &info)
		if err == nil && len(info.Running) > wire.MaxRunning {
			err = fmt.Errorf("%d attempts are Running, at most %d", len(info.Running), wire.MaxRunning)
		}
		if err != nil {
			return batch, p.Refuse(wire.CodeProtocol, fmt.Errorf("the payload of Renew: %w", err))
		}
		e.op, e.renew = renew, &info
	case f.Type == wire.Report && !fromClient:
		var info wire.ReportInfo
		err := json.Unmarshal(f.Payload, &info)
		if err == nil && (len(info.Lines) > wire.MaxReportLines || len(info.Message) > wire.MaxReportMessage) {
			err = fmt.Errorf("%d Lines and a Message of %d bytes, at most %d and %d", len(info.Lines), len(info.Message), wire.MaxReportLines, wire.MaxReportMessage)
		}
		if err == nil && info.Checkpoint != nil {
			err = info.Checkpoint.Check()
		}
		if err != nil {
			return batch, p.Refuse(wire.CodeProtocol, fmt.Errorf("the payload of Report: %w", err))
		}
		if info.Checkpoint != nil {
			if err := l.checkBlobs([]wire.Blob{*info.Checkpoint}); err != nil {
				l.Log.Warn("the checkpoint of a job is of no use", "job", f.CorrID, "worker", p.who(), "err", err)
				info.Checkpoint = nil
			}
		}
		e.op, e.report = report, &info
	case f.Type == wire.Cancel && !fromClient:
		e.op = handBack
	case f.Type == wire.Drain && !fromClient:
		e.op = drainWorker
	case (f.Type == wire.BlobBegin || f.Type == wire.BlobChunk || f.Type == wire.BlobEnd) && p.blobs != nil:
		return batch, l.blob(p, f)
	default:
		l.Metrics.ignore(f.Type)
		if p.ignored++; p.ignored > maxIgnored {
			return batch, p.Refuse(wire.CodeProtocol, fmt.Errorf("%d frames without a meaning here, the last one %s", p.ignored, f.Type))
		}
		return batch, nil
	}
	return append(batch, e), nil
}

// submitted checks a SubmitJob.
func (l *Leader) submitted(p *peer, f wire.Frame, batch []event) ([]event, error) {
	no := func(code string, err error) ([]event, error) {
		l.Metrics.refused(code)
		exec, _ := wire.ExecOf(f.Subject)
		return batch, p.Send(p.RefusalFrame(f.MsgID, exec, code, err.Error())...)
	}
	r, err := wire.ReadSubmitJob(&f, p.Name)
	if err == nil {
		err = l.checkBlobs(r.Blobs)
	}
	if err != nil {
		return no(wire.CodeInvalid, err)
	}
	if err := p.Denied(l.Log, l.rules().Submit(p.principal, p.Name, r.ExecName)); err != nil {
		return no(wire.CodeForbidden, err)
	}
	if code, err := l.closed(); err != nil {
		return no(code, err)
	}
	s := &schedule.Submission{ID: r.JobID, Exec: r.ExecName, Options: r.Options, Digest: digest(f.Payload)}
	if r.NotAfter != nil {
		s.NotAfter = max(1, l.now()+time.Until(*r.NotAfter))
	}
	if r.Array != "" {
		if s.First, s.Last, err = wire.ParseArray(r.Array); err != nil {
			return no(wire.CodeInvalid, err)
		}
	}
	if s.Body, err = l.body(f.Payload, r.Array != ""); err != nil {
		return no(wire.CodeNoSpace, err)
	}
	s.Body.Blobs = digests(r.Blobs)
	return append(batch, event{op: submit, peer: p.id, submit: s}), nil
}

// acked checks an AckJob.
func (l *Leader) acked(p *peer, f wire.Frame, batch []event) ([]event, error) {
	r, err := wire.ReadAck(f.Payload)
	switch {
	case err != nil:
	case r.JobID != f.CorrID:
		err = fmt.Errorf("JobId is %s, and CorrId %s", r.JobID, f.CorrID)
	case len(f.Payload) > wire.MaxAck(r.ClientID):
		err = fmt.Errorf("%w: a result of %d bytes, at most %d", wire.ErrTooLarge, len(f.Payload), wire.MaxAck(r.ClientID))
	}
	if err == nil {
		// The job need not be known here, so its exec may be one of a worker with other rights.
		err = p.Denied(l.Log, l.rules().Worker(p.principal, wire.AssignPrefix+r.ExecName))
	}
	ended := &schedule.Ended{Client: r.ClientID, Exec: r.ExecName, OK: r.Status == wire.OK, Reason: r.Reason}
	if err != nil {
		// The worker believes that the job has ended; so it has, and its client learns why there is no result.
		l.Metrics.refused(wire.CodeInvalid)
		if sent := p.Send(p.ErrorFrame(f.CorrID, wire.CodeInvalid, err.Error())...); sent != nil {
			return batch, sent
		}
		return append(batch, event{op: ack, peer: p.id, job: f.CorrID, attempt: f.MsgID, ended: &schedule.Ended{Reason: wire.ReasonError, Message: "its worker has sent a result that cannot be read: " + jobs.Clip(err.Error(), 500, "…")}}), nil
	}
	if !ended.OK {
		failure(ended, f.Payload)
	}
	if ended.Body, err = l.body(f.Payload, false); err != nil {
		// It stays with its worker, which sends it again over its next connection.
		return batch, fmt.Errorf("keep the result of job %s: %w", f.CorrID, err)
	}
	return append(batch, event{op: ack, peer: p.id, job: f.CorrID, attempt: f.MsgID, ended: ended}), nil
}

const (
	maxFailure = 500     // bytes of the message of a failed attempt
	maxOutput  = 2 << 10 // bytes of each output of a failed attempt
)

// failure reads what a dead letter tells of its last attempt from a result.
func failure(e *schedule.Ended, payload []byte) {
	var r struct{ Message, Stdout, Stderr string }
	_ = json.Unmarshal(payload, &r) // a message that is no text is left out
	end := func(s string) string { return strings.ToValidUTF8(s[max(0, len(s)-maxOutput):], "") }
	e.Reason, e.Message = cmp.Or(e.Reason, wire.ReasonExit), jobs.Clip(r.Message, maxFailure, "…")
	e.Stdout, e.Stderr = end(r.Stdout), end(r.Stderr)
}

// digest tells requests with the same id apart that are not the same. It is never 0.
func digest(payload []byte) uint64 {
	return xxhash.Sum64(payload) | 1
}

// apply gives events to the state and returns how many.
func (l *Leader) apply(batch []event) int {
	now := l.now()
	c := l.core
	for i := range batch {
		switch e := &batch[i]; e.op {
		case helloClient:
			c.ClientHello(now, e.peer, e.name, e.n, e.features)
		case helloWorker:
			c.WorkerHello(now, e.peer, *e.info)
		case gone:
			c.Gone(now, e.peer)
		case submit:
			c.Submit(now, e.peer, *e.submit)
		case credit:
			c.Credit(now, e.peer, e.n)
		case accept:
			c.Accept(now, e.peer, e.job, e.attempt)
		case ack:
			c.Ack(now, e.peer, e.job, e.attempt, *e.ended)
		case renew:
			c.Renew(now, e.peer, *e.renew)
		case cancel:
			c.Cancel(now, e.name, e.job)
		case handBack:
			c.HandBack(now, e.peer, e.job, e.attempt)
		case delivered:
			c.Delivered(now, e.peer, e.ids)
		case written:
			c.Written(now, e.peer, e.ids)
		case drainWorker:
			c.Drain(now, e.peer)
		case report:
			c.Report(now, e.peer, e.job, e.attempt, *e.report)
			l.changes.Wake()
		case query:
			l.answer(e.peer, c.Query(now, e.name, e.job))
		}
	}
	n := len(batch)
	if cap(batch) == maxRead {
		clear(batch)
		batches.Put(batch[:0]) //nolint:staticcheck // the header is small beside what it stands for
	}
	return n
}

func (l *Leader) answer(id schedule.PeerID, info wire.StatusInfo) {
	p := l.peers.get(id)
	if p == nil || !p.Has(wire.FeatureQuery) {
		return
	}
	text, err := json.Marshal(info)
	if err != nil {
		return // it is made of texts
	}
	_ = p.Send(wire.Frame{Type: wire.Status, MsgID: wire.NewGUID(), CorrID: info.JobID, Payload: text})
}

// written tells the state of results that were written to a client that acknowledges nothing. It is called by the writer of a connection, which must
// not wait for the loop.
func (l *Leader) written(p *peer, ids []wire.GUID) {
	e := event{op: written, peer: p.id, ids: ids}
	select {
	case l.inbox <- []event{e}:
	default:
		go l.put(e)
	}
}

// closed returns why no jobs are taken now, if so.
func (l *Leader) closed() (code string, err error) {
	l.mu.Lock()
	draining := l.draining
	l.mu.Unlock()
	if draining {
		return wire.CodeDraining, errors.New("this leader is stopping: submit to another one, or later")
	}
	if l.journal != nil {
		if err := l.disk.full(); err != nil {
			return wire.CodeNoSpace, err
		}
		if err := l.journal.Err(); err != nil {
			return wire.CodeNoSpace, fmt.Errorf("the journal takes nothing: %w", err)
		}
	}
	return "", nil
}
