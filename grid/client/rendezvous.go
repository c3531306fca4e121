package client

import (
	"github.com/cespare/xxhash/v2"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// spillFrom: the second choice gets a job when the first one has more than twice as many jobs as the second, and spillFrom more. Leaders
// that are equally fast have about equally many jobs, so a job that is submitted again rarely goes to the other one.
const spillFrom = 16

// nextAtHome returns the next job that its leader can be given now, and the leader; nil if there is none. m.mu is held.
func (m *Multi) nextAtHome() (next *Job, at *leader) {
	m.assign()
	for _, l := range m.leaders {
		if len(l.queue) > 0 && l.takes() && (next == nil || l.queue[0].order < next.order) {
			next, at = l.queue[0], l
		}
	}
	return next, at
}

// assign moves pending jobs into the queues of their leaders, and jobs in queues of leaders that take none into other queues. m.mu is held.
func (m *Multi) assign() {
	for _, l := range m.leaders {
		for len(l.queue) > 0 && !l.isOpen() {
			j := l.queue[0]
			j.stopWaiting()
			m.pending.add(j)
		}
	}
	for len(m.pending) > 0 {
		j := m.pending[0]
		l := m.home(j.ID)
		if l == nil {
			return
		}
		j.stopWaiting()
		l.queue.add(j)
	}
}

// isOpen reports whether jobs may wait for the leader: it takes jobs, or its first connection is not decided yet. m.mu is held.
func (l *leader) isOpen() bool { return (l.ready || !l.tried) && !l.isPaused() }

// home returns the leader of a job, or nil while none takes jobs. m.mu is held.
func (m *Multi) home(id wire.GUID) *leader {
	var first, second *leader
	for _, l := range m.leaders {
		switch {
		case !l.isOpen():
		case first == nil || l.weight(id) > first.weight(id):
			first, second = l, first
		case second == nil || l.weight(id) > second.weight(id):
			second = l
		}
	}
	if second != nil && first.ready && second.ready && first.load() > 2*second.load()+spillFrom {
		return second
	}
	return first
}

// load is how many jobs the leader has, or will get from its queue. m.mu is held.
func (l *leader) load() int { return l.inFlight + len(l.queue) }

// weight is the leader's weight for a job, the same in each process: the leader with the highest weight gets the job (rendezvous hashing).
func (l *leader) weight(id wire.GUID) uint64 {
	w := xxhash.Sum64(id[:]) ^ l.hash
	w = (w ^ w>>30) * 0xbf58476d1ce4e5b9 // the end of splitmix64, which lets each bit change all others
	w = (w ^ w>>27) * 0x94d049bb133111eb
	return w ^ w>>31
}
