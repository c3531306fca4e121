package member

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
)

// run is a job in hand.
type run struct {
	id      wire.GUID
	lease   string
	payload []byte
	began   time.Time
	accept  *time.Timer // sends Accept

	// Guarded by Member.mu.
	attempts []*attempt // who gets the result: one for each leader that has assigned the job
	waits    bool       // for a slot
	accepted bool
	detail   string          // the JobResult of a handler that has failed
	report   wire.ReportInfo // is to be sent
}

// attempt is a run as a leader knows it.
type attempt struct {
	peer     *peer
	id       wire.GUID // zero if the leader knows no attempts
	places   int       // how many of the leader's assignments it stands for
	canceled bool
	lost     bool
}

// of returns the attempt of a leader, or nil. Member.mu is held.
func (r *run) of(p *peer) *attempt {
	i := slices.IndexFunc(r.attempts, func(a *attempt) bool { return a.peer == p && !a.lost })
	if i < 0 {
		return nil
	}
	return r.attempts[i]
}

// stop returns why the job is to stop, or nil: [jobs.ErrCanceled] or [jobs.ErrLeaseLost]. Member.mu is held.
func (r *run) stop() error {
	canceled, lost := false, 0
	for _, a := range r.attempts {
		switch {
		case a.canceled:
			canceled = true
		case a.lost || a.peer.gone():
			lost++
		default:
			return nil // this leader still wants the result
		}
	}
	switch {
	case canceled:
		return jobs.ErrCanceled
	case len(r.attempts) == 1 && !r.attempts[0].lost:
		return fmt.Errorf("%w: no connection to the leader for %s", jobs.ErrLeaseLost, r.attempts[0].peer.KeepRunning)
	case lost > 0:
		return fmt.Errorf("%w: its leader has given it to another worker", jobs.ErrLeaseLost)
	}
	return nil
}

const (
	// acceptAfter is how long a job may take before its leader is told that it has arrived. One that ends sooner costs no such frame.
	acceptAfter = 250 * time.Millisecond
	// overspend is how many jobs beyond its share a leader may assign before the connection is ended: those of the original protocol may
	// count wrong.
	overspend = 100
)

// assign takes a job. One that is in hand, or has ended here not long ago, is not run again.
func (s *session) assign(f wire.Frame) error {
	p, m := s.peer, s.peer.Member
	m.mu.Lock()
	s.seen++
	if m.draining {
		m.mu.Unlock()
		return nil // it was on its way; it is not accepted, and the leader assigns it to another worker
	}
	if p.places >= p.share+overspend {
		m.mu.Unlock()
		return fmt.Errorf("%w: the leader assigns jobs without credit: it has %d here, at most %d", wire.ErrFrame, p.places, p.share)
	}
	p.places++
	to := recipient{p, f.MsgID}
	r, d := m.runs[f.MsgID], m.undelivered[to]
	switch known, ok := m.cache.get(f.MsgID, time.Now()); {
	case r != nil:
		m.attach(r, p, f.CorrID)
		m.mu.Unlock()
		m.Metrics.assigned.WithLabelValues("runs").Inc()
	case d != nil:
		d.attempt, d.places = f.CorrID, d.places+1
		m.mu.Unlock()
		d.sendAgain()
		m.Metrics.assigned.WithLabelValues("ended").Inc()
	case ok:
		d := m.addDelivery(to, f.CorrID, known, 1)
		m.mu.Unlock()
		m.deliver(d)
		m.Metrics.assigned.WithLabelValues("ended").Inc()
	default:
		m.start(p, f)
		m.mu.Unlock()
		m.Metrics.assigned.WithLabelValues("new").Inc()
	}
	return nil
}

// attach makes a leader another recipient of the result of a run. m.mu is held.
func (m *Member) attach(r *run, p *peer, id wire.GUID) {
	m.Log.Info("job is in hand already and is not run again", "job", r.id, "leader", p.addr)
	i := slices.IndexFunc(r.attempts, func(a *attempt) bool { return a.peer == p })
	if i < 0 {
		r.attempts = append(r.attempts, &attempt{peer: p})
		i = len(r.attempts) - 1
	}
	a := r.attempts[i]
	a.id, a.places, a.canceled, a.lost = id, a.places+1, false, false
	if r.accepted {
		a.accept(r)
	}
}

// start puts a new job in the queue for a slot. m.mu is held.
func (m *Member) start(p *peer, f wire.Frame) {
	m.leased++
	r := &run{
		id: f.MsgID, lease: strconv.Itoa(m.leased), payload: f.Payload, began: time.Now(), waits: true,
		attempts: []*attempt{{peer: p, id: f.CorrID, places: 1}},
	}
	r.accept = time.AfterFunc(acceptAfter, func() { m.accept(r) })
	m.runs[r.id], m.leases[r.lease] = r, r
	m.waiting = append(m.waiting, r)
	m.announce()
}

// announce wakes a slot that waits for a job.
func (m *Member) announce() {
	select {
	case m.work <- struct{}{}:
	default:
	}
}

// accept tells the leaders that a job has arrived, or hands it back if it is stuck.
func (m *Member) accept(r *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs[r.id] != r || m.unstick(r) {
		return // it is not in hand any more
	}
	r.accepted = true
	for _, a := range r.attempts {
		a.accept(r)
	}
	r.sendReport()
}

// accept is the same for one leader. Member.mu is held.
func (a *attempt) accept(r *run) {
	if s := a.peer.session; s != nil && s.has(wire.FeatureAccept) && !a.lost {
		_ = s.Send(wire.Frame{Type: wire.Accept, MsgID: a.id, CorrID: r.id}) // the next hello lists it, if the connection has ended
	}
}

// cancel stops a job, or says that a leader no longer wants its result from this worker.
func (s *session) cancel(f wire.Frame) error {
	var c wire.CancelInfo
	if len(f.Payload) > 0 {
		if err := json.Unmarshal(f.Payload, &c); err != nil {
			return fmt.Errorf("%w: Cancel: %w", wire.ErrFrame, err)
		}
	}
	m := s.peer.Member
	m.mu.Lock()
	r := m.runs[f.CorrID]
	if r == nil {
		m.mu.Unlock()
		return nil // it has just ended
	}
	a := r.of(s.peer)
	if a == nil || !f.MsgID.IsZero() && f.MsgID != a.id {
		m.mu.Unlock()
		return nil // an earlier attempt, which has become this one
	}
	a.lost = c.Reason == wire.ReasonLost
	a.canceled = !a.lost
	stop := r.stop()
	if !r.waits || stop == nil {
		m.mu.Unlock()
		return nil // the loop asks each second
	}
	if a.lost {
		m.drop(r)
		m.mu.Unlock()
		m.grantAll()
		return nil
	}
	m.mu.Unlock()
	m.finish(r, canceledResult(r), false)
	return nil
}

// remove takes a job out of hand. Member.mu is held.
func (m *Member) remove(r *run) {
	r.accept.Stop()
	delete(m.runs, r.id)
	delete(m.leases, r.lease)
	if r.waits {
		m.waiting = slices.DeleteFunc(m.waiting, func(o *run) bool { return o == r })
		r.waits = false
	}
}

// drop removes a job that gets no result, and frees the places it has taken. m.mu is held.
func (m *Member) drop(r *run) {
	m.remove(r)
	for _, a := range r.attempts {
		a.peer.places -= a.places
	}
}

// handBack tells the leaders that they get no result of a job. m.mu is held.
func (m *Member) handBack(r *run, why string) {
	for _, a := range r.attempts {
		if s := a.peer.session; s != nil {
			s.handBack(r, a, why)
		}
	}
}
