package member

// unused returns how many credits the leader has not used. One that assigns without credit has none. Member.mu is held.
func (s *session) unused() int { return int(max(0, s.granted-s.seen)) }

// grant gives the leader credit for the places of its share that are free, once the gate lets it pass.
func (p *peer) grant() {
	p.mu.Lock()
	s, free := p.session, 0
	if s != nil {
		free = max(0, p.share-p.places-s.unused()-s.held)
		s.held += free
	}
	p.mu.Unlock()
	if free > 0 && p.Gate == nil {
		s.give(free)
		return
	}
	for range free {
		p.Gate.Release(func() { s.give(1) })
	}
}

// grantAll is grant for all leaders.
func (m *Member) grantAll() {
	for _, p := range m.peers {
		p.grant()
	}
}

// give sends credit that was held. After the end of the connection there is nothing to do: the next one begins with what is free then.
func (s *session) give(n int) {
	p := s.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	s.held -= n
	if p.session != s || p.draining {
		return
	}
	s.granted += int64(n)
	_ = s.Send(credit(n)) // the connection has ended otherwise
}
