package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// features are what this end knows of the protocol.
var features = []string{
	wire.FeatureAccept, wire.FeatureCancel, wire.FeaturePing, wire.FeatureError, wire.FeatureResultAck, wire.FeatureDrain, wire.FeatureArray, wire.FeatureAttempt,
	wire.FeatureReport, wire.FeatureBlob,
}

// session is one connection to a leader.
type session struct {
	*link.Conn
	peer    *peer
	blobs   *blob.Client
	sending chan struct{} // holds a token while a result is being queued: they are queued one after the other
	limited chan struct{} // holds a token when the leader is to be told of a lower limit
	known   chan struct{} // closed when it is known whether the leader is one of the original protocol
	know    sync.Once

	// Guarded by Member.mu.
	features  []string // of the leader
	granted   int64    // credits that it was given, less those that were taken back
	seen      int64    // jobs that were assigned
	held      int      // credits that the gate holds back
	withdrawn bool     // credits were taken back, and none given since
	refusal   error    // the leader has said that it does not take this worker
}

// refusal is an error that another try will not change soon.
type refusal struct{ error }

func (r refusal) Unwrap() []error { return []error{worker.ErrRefused, r.error} }

// hello returns the first frame. The places that the leader's jobs take are counted again: it hears of each once. Member.mu is held.
func (p *peer) hello() (wire.Frame, error) {
	c := wire.Capability{
		Proto: 2, Features: features, MaxParallel: p.share, Host: p.Host, Version: p.Version, Token: p.Token, Running: []wire.Running{},
	}
	for _, r := range p.runs {
		for _, a := range r.attempts {
			if a.peer != p {
				continue
			}
			a.places = 0
			if !a.lost {
				a.places = 1
				c.Running = append(c.Running, wire.Running{JobID: r.id, AttemptID: a.id})
			}
		}
	}
	for to, d := range p.undelivered {
		if to.peer == p {
			d.places, d.written = 1, false
			c.Running = append(c.Running, wire.Running{JobID: to.job, AttemptID: d.attempt})
		}
	}
	p.places = len(c.Running)
	c.Host, c.Version = jobs.Clip(c.Host, maxHost, ""), jobs.Clip(c.Version, maxHost, "")
	payload, err := json.Marshal(c)
	return wire.Frame{Type: wire.HelloWorker, MsgID: p.ID, Subject: p.Pattern, Payload: payload}, err
}

func credit(n int) wire.Frame {
	return wire.Frame{Type: wire.Credit, MsgID: wire.NewGUID(), Payload: wire.AppendCredit(nil, n)}
}

// has reports whether the leader has a feature. Member.mu is held.
func (s *session) has(feature string) bool { return slices.Contains(s.features, feature) }

// receive takes a frame. An error ends the connection.
func (s *session) receive(f wire.Frame) error {
	if f.Type == wire.Welcome {
		return s.welcome(f)
	}
	s.isKnown() // a leader of ours sends Welcome first
	switch f.Type {
	case wire.AssignJob:
		return s.assign(f)
	case wire.Cancel:
		return s.cancel(f)
	case wire.ResultAck:
		return s.resultAck(f)
	case wire.Error:
		return s.error(f)
	case wire.BlobBegin, wire.BlobChunk, wire.BlobEnd:
		return s.blobs.Handle(f)
	default: // it is for others, or later than this version
		return nil
	}
}

func (s *session) isKnown() { s.know.Do(func() { close(s.known) }) }

// welcome learns what the leader can do.
func (s *session) welcome(f wire.Frame) error {
	var w wire.WelcomeInfo
	if err := json.Unmarshal(f.Payload, &w); err != nil {
		return fmt.Errorf("%w: Welcome: %w", wire.ErrFrame, err)
	}
	m := s.peer.Member
	m.mu.Lock()
	defer m.mu.Unlock()
	s.features = w.Features
	if s.has(wire.FeaturePing) {
		s.Ping()
	}
	if m.draining {
		s.drain()
	}
	s.withdraw() // the loop may have become unready since the hello
	m.Log.Info("connected to leader", "leader", s.peer.addr, "id", w.LeaderID, "durable", w.Durable)
	s.isKnown()
	return nil
}

// drain tells the leader to assign no more jobs. Member.mu is held.
func (s *session) drain() {
	if s.has(wire.FeatureDrain) {
		_ = s.Send(wire.Frame{Type: wire.Drain}) // the connection ends for the same reason
	}
}

// handBack tells the leader that it gets no result of an attempt, so that it need not wait until that is no longer renewed. Member.mu is
// held.
func (s *session) handBack(r *run, a *attempt, why string) {
	if !s.has(wire.FeatureCancel) || a.lost {
		return
	}
	payload, err := json.Marshal(wire.CancelInfo{Reason: why})
	if err == nil {
		_ = s.Send(wire.Frame{Type: wire.Cancel, MsgID: a.id, CorrID: r.id, Payload: payload}) // the end of the connection says the same
	}
}

// error takes what the leader complains about.
func (s *session) error(f wire.Frame) error {
	var e wire.ErrorInfo
	if err := json.Unmarshal(f.Payload, &e); err != nil {
		return fmt.Errorf("%w: Error: %w", wire.ErrFrame, err)
	}
	e.Code, e.Message = jobs.Visible(jobs.Clip(e.Code, 100, "…")), jobs.Visible(jobs.Clip(e.Message, 1000, "…"))
	if !f.CorrID.IsZero() {
		s.peer.Log.Warn("the leader reports an error about a job", "leader", s.peer.addr, "job", f.CorrID, "code", e.Code, "message", e.Message)
		return nil
	}
	s.peer.Log.Error("the leader reports an error", "leader", s.peer.addr, "code", e.Code, "message", e.Message)
	if e.Code == wire.CodeForbidden || e.Code == wire.CodeProtocol {
		s.peer.mu.Lock()
		defer s.peer.mu.Unlock()
		s.refusal = fmt.Errorf("%s: %s", e.Code, e.Message)
	}
	return nil
}

// keep tells the leader regularly what runs, until the connection ends. When ctx ends it closes the connection, after what is queued was
// written.
func (s *session) keep(ctx context.Context) {
	legacy := time.NewTimer(welcomeTimeout)
	defer legacy.Stop()
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = s.Close()
			return
		case <-s.Done():
			return
		case <-legacy.C:
			s.isKnown()
		case <-tick.C:
			s.update()
		case <-s.limited:
			s.update()
		}
	}
}

// update hands back what is stuck, and tells the leader of the rest.
func (s *session) update() {
	m := s.peer.Member
	cpu := m.Gate.Busy()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range slices.Clone(m.waiting) {
		if r.accepted { // otherwise its time has not come
			m.unstick(r)
		}
	}
	s.renew(cpu)
}

// renew tells the leader which of its jobs are in hand, so that they stay this worker's, and how many it may have assigned over this
// connection so far, should a credit have been lost on either side. Member.mu is held.
func (s *session) renew(cpu float64) {
	p := s.peer
	if !s.has(wire.FeatureAccept) {
		return
	}
	info := wire.RenewInfo{Running: []wire.Running{}, Seen: s.seen, Limit: new(int(s.granted)), CPU: cpu}
	for _, r := range p.runs {
		if a := r.of(p); a != nil {
			info.Running = append(info.Running, wire.Running{JobID: r.id, AttemptID: a.id})
		}
	}
	for to, d := range p.undelivered {
		if to.peer == p && !d.written { // a large result on a slow line
			info.Running = append(info.Running, wire.Running{JobID: to.job, AttemptID: d.attempt})
		}
	}
	payload, err := json.Marshal(info)
	if err == nil {
		err = s.Send(wire.Frame{Type: wire.Renew, MsgID: wire.NewGUID(), Payload: payload})
	}
	if err != nil && !errors.Is(err, s.Err()) {
		p.Log.Error("cannot renew the jobs in hand", "leader", p.addr, "err", err)
	}
}
