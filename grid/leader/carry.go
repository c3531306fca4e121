package leader

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/journal"
)

// carryOut does what the state wants done since the last time: records into the journal, frames to peers. Promises wait for the records.
func (l *Leader) carryOut() {
	effects, records := l.core.Take()
	defer l.tell(l.core.Changed(), len(effects)+len(records))
	if len(effects) == 0 && len(records) == 0 {
		return
	}
	var last journal.Ticket
	if l.journal != nil {
		for _, r := range records {
			last = l.journal.Append(r)
		}
	}
	var promises []schedule.Effect
	s := sender{l: l, by: byLoop}
	for _, e := range effects {
		if l.journal != nil && (e.Op.Promises() || e.Op == schedule.Forget) {
			promises = append(promises, e)
			continue
		}
		s.add(e)
	}
	s.flush()
	if len(promises) > 0 {
		l.keeper.add(last, promises)
	}
}

// Who sends: each has its own frames of a peer.
const (
	byLoop = iota
	byKeeper
	senders
)

// sender sends what effects say: one piece for each peer.
type sender struct {
	l     *Leader
	by    int // who sends
	peers []*peer
	acks  []ids
}

// ids are those that one frame acknowledges.
type ids struct {
	p    *peer
	kind wire.Type
	list []wire.GUID
}

func (s *sender) add(e schedule.Effect) {
	if e.Op == schedule.Forget {
		s.l.bodies.forget(e.Body.Ref)
		return
	}
	p := s.l.peers.get(e.Peer)
	if p == nil {
		return // its events say so next
	}
	switch e.Op {
	case schedule.Assign, schedule.Result:
		if !e.Body.Ref.IsZero() {
			s.l.sendStored(p, e)
			return
		}
		if e.Op == schedule.Result && !p.Has(wire.FeatureResultAck) {
			s.send(p) // in order
			_ = p.SendWith(resultFrame(e), e.Job)
			return
		}
		s.frame(p, frameOf(p, e))
	case schedule.SubmitAck:
		s.ack(p, wire.SubmitAck, e.Job)
	case schedule.ResultAck:
		s.ack(p, wire.ResultAck, e.Job)
	case schedule.CancelRun:
		text, _ := json.Marshal(wire.CancelInfo{Reason: e.Reason}) // of a text
		s.frame(p, wire.Frame{Type: wire.Cancel, MsgID: e.Attempt, CorrID: e.Job, Payload: text})
	case schedule.ErrorTo:
		s.l.Metrics.refused(e.Code)
		frames := p.ErrorFrame(e.Job, e.Code, e.Reason)
		if e.Exec != "" {
			frames = p.RefusalFrame(e.Job, e.Exec, e.Code, e.Reason)
		}
		for _, f := range frames {
			s.frame(p, f)
		}
	case schedule.CloseWith:
		s.send(p)
		s.l.refuse(p, e.Code, e.Reason)
	case schedule.Forget: // above
	}
}

// refuse closes a connection after its peer was told why. It does not wait.
func (l *Leader) refuse(p *peer, code, reason string) {
	l.readers.Go(func() { l.Metrics.ended(p.Refuse(code, textError(reason))) })
}

type textError string

func (e textError) Error() string { return string(e) }

// frameOf is the frame of an Assign or a Result.
func frameOf(p *peer, e schedule.Effect) wire.Frame {
	if e.Op == schedule.Result {
		return resultFrame(e)
	}
	subject, ok := p.subjects[e.Exec]
	if !ok {
		if len(p.subjects) >= 1000 {
			clear(p.subjects)
		}
		subject = wire.AssignSubject(e.Exec, p.worker)
		p.subjects[e.Exec] = subject
	}
	f := wire.Frame{Type: wire.AssignJob, MsgID: e.Job, CorrID: e.Attempt, Subject: subject}
	if e.Body.Bytes != nil {
		f.Payload = assigned(p, e, subject, e.Body.Bytes)
	}
	return f
}

// assigned is the request of an Assign, as its worker gets it.
func assigned(p *peer, e schedule.Effect, subject string, request []byte) []byte {
	if !p.Has(wire.FeatureAttempt) {
		return request
	}
	return wire.AssignPayload(request, subject, e.Number, e.Checkpoint)
}

func resultFrame(e schedule.Effect) wire.Frame {
	return wire.Frame{Type: wire.Result, MsgID: e.Job, CorrID: e.Job, Subject: wire.ResultSubject(e.Client, e.Job), Payload: e.Body.Bytes}
}

func (s *sender) frame(p *peer, f wire.Frame) {
	out := &p.out[s.by]
	if len(*out) == 0 {
		s.peers = append(s.peers, p)
	}
	*out = append(*out, f)
}

func (s *sender) ack(p *peer, kind wire.Type, id wire.GUID) {
	for i := range s.acks {
		if a := &s.acks[i]; a.p == p && a.kind == kind {
			a.list = append(a.list, id)
			return
		}
	}
	s.acks = append(s.acks, ids{p, kind, []wire.GUID{id}})
}

// send sends what has gathered for a peer. A peer that does not take it is closed by its connection.
func (s *sender) send(p *peer) {
	if out := p.out[s.by]; len(out) > 0 {
		_ = p.Send(out...)
		clear(out)
		p.out[s.by] = out[:0]
	}
}

// maxAcks is how many ids one frame acknowledges.
const maxAcks = 10_000

func (s *sender) flush() {
	for _, a := range s.acks {
		for list := a.list; len(list) > 0; {
			n := min(len(list), maxAcks)
			s.frame(a.p, wire.Frame{Type: a.kind, Payload: wire.AppendGUIDs(nil, list[:n]...)})
			list = list[n:]
		}
	}
	for _, p := range s.peers {
		s.send(p)
	}
}

// keeper has the promises that wait for their records.
type keeper struct {
	mu       sync.Mutex
	last     journal.Ticket
	promises []schedule.Effect
	wake     chan struct{}
}

func (k *keeper) add(last journal.Ticket, promises []schedule.Effect) {
	k.mu.Lock()
	k.last = max(k.last, last)
	k.promises = append(k.promises, promises...)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeper) take() (journal.Ticket, []schedule.Effect) {
	k.mu.Lock()
	defer k.mu.Unlock()
	promises := k.promises
	k.promises = nil
	return k.last, promises
}

// keep carries promises out whose records are on disk, until ctx ends or the journal fails. All that have gathered meanwhile share one sync.
func (l *Leader) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.keeper.wake:
		}
		last, promises := l.keeper.take()
		if len(promises) == 0 {
			continue
		}
		began := time.Now()
		if err := l.journal.Commit(ctx, last, l.Sync == SyncAlways); err != nil {
			return // the journal has failed, and the leader ends: what was not kept is not promised
		}
		l.Metrics.committed(time.Since(began))
		s := sender{l: l, by: byKeeper}
		for _, e := range promises {
			s.add(e)
		}
		s.flush()
	}
}
