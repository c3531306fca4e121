package member

import "github.com/batchfleet/batchfleet/grid/wire"

// Credit follows the slots that ask for a job: a loop that is not ready does not ask, and then no leader may assign one. What was given is
// taken back from leaders that know how much they may assign in all; those of the original protocol keep it.

// unused returns how many credits the leader has left. It is below 0 for one that has assigned more than it had. Member.mu is held.
func (s *session) unused() int { return int(s.granted - s.seen) }

// room returns how many jobs the leader may assign now: for each there is a place of its share, and a slot that asks. Member.mu is held.
func (p *peer) room() int { return max(0, min(p.share-p.places, p.asking-len(p.waiting))) }

// missing returns how many more credits the leader is to have. Member.mu is held.
func (s *session) missing() int {
	room := s.peer.room()
	if room == 0 {
		return 0
	}
	return max(0, room-s.unused()-s.held)
}

// grant gives the leader the credit that it is to have, once the gate lets it pass.
func (p *peer) grant() {
	p.mu.Lock()
	s, n := p.session, 0
	if s != nil {
		n = s.missing()
		s.held += n
	}
	p.mu.Unlock()
	if n > 0 && p.Gate == nil {
		s.give(n)
		return
	}
	for range n {
		p.Gate.Release(func() { s.give(1) })
	}
}

// grantAll is grant for all leaders.
func (m *Member) grantAll() {
	for _, p := range m.peers {
		p.grant()
	}
}

// give sends credit that was held, if the leader is still to have it. After the end of the connection there is nothing to do: the next one
// begins with what it is to have then.
func (s *session) give(n int) {
	p := s.peer
	cpu := p.Gate.Busy() // not under the lock: the gate asks for what runs under its own
	p.mu.Lock()
	defer p.mu.Unlock()
	s.held -= n
	if n = min(n, s.missing()); n == 0 || p.session != s || p.draining {
		return
	}
	s.granted += int64(n)
	if s.withdrawn {
		s.withdrawn = false
		s.renew(cpu)
		return
	}
	_ = s.Send(credit(n)) // the connection has ended otherwise
}

// withdraw takes back what the leader has no room for. It may assign a job before it knows: so the next credit is not added to what it has,
// but a Limit for all. Member.mu is held.
func (s *session) withdraw() {
	n := s.unused() - s.peer.room()
	if n <= 0 || !s.has(wire.FeatureAccept) {
		return
	}
	s.granted -= int64(n)
	s.withdrawn = true
	select {
	case s.limited <- struct{}{}:
	default: // it will be told all at once
	}
}

// ask notes that a slot asks for a job, stopAsking that it does no more, and has got none.
func (m *Member) ask() {
	m.mu.Lock()
	m.asking++
	m.mu.Unlock()
	m.grantAll()
}

func (m *Member) stopAsking() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asking--
	if len(m.waiting) > 0 {
		m.announce() // this slot may have been told instead of another one
	}
	for _, p := range m.peers {
		if p.session != nil {
			p.session.withdraw()
		}
	}
}

// isStuck reports whether a job waits for a slot although not all of them run jobs: none asks, because the loop is not ready. Member.mu is
// held.
func (m *Member) isStuck(r *run) bool {
	return r.waits && m.asking == 0 && len(m.runs)-len(m.waiting) < m.MaxParallel
}

// unstick hands a job back that is stuck, and reports whether it has. A leader that is away, or that does not take jobs back, leaves it
// here. Member.mu is held.
func (m *Member) unstick(r *run) bool {
	if !m.isStuck(r) {
		return false
	}
	for _, a := range r.attempts {
		if s := a.peer.session; !a.lost && (s == nil || !s.has(wire.FeatureCancel)) {
			return false
		}
	}
	m.handBack(r, busy)
	m.drop(r)
	return true
}
