package schedule

import (
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// owe keeps the result of a job that has ended until its client has it.
func (c *Core) owe(j *job) {
	j.line.client.results += int64(j.result().Size)
	c.toDeliver(j)
	if p := c.peers[j.owner]; p != nil {
		c.deliver(p)
	}
}

// toDeliver puts a result where it waits to be sent: with who has submitted the job, or the newest connection of its client.
func (c *Core) toDeliver(j *job) {
	cl := j.line.client
	if j.list == &c.acked { // it is wanted once more
		c.ackedBytes -= int64(j.result().Size)
		cl.results += int64(j.result().Size)
	} else if p := c.peers[j.owner]; p != nil && j.list == &p.sent {
		p.window -= j.result().Size
	}
	j.leave()
	p := c.peers[j.owner]
	if p == nil || p.client != cl {
		if p = nil; len(cl.sessions) > 0 {
			p = cl.sessions[len(cl.sessions)-1]
			j.owner = p.id
		}
	}
	if p == nil {
		j.owner = 0
		cl.waiting.pushBack(j)
		return
	}
	p.unsent.pushBack(j)
}

// deliver sends results to a client, as many as may be on their way.
func (c *Core) deliver(p *peer) {
	for j := p.unsent.first; j != nil && p.window < c.cfg.ResultWindow; j = p.unsent.first {
		j.leave()
		p.sent.pushBack(j)
		p.window += j.result().Size
		c.emit(Effect{Op: Result, Peer: p.id, Job: j.id, Client: p.client.name, Body: j.result()})
	}
}

// Delivered tells that a client has results: it has acknowledged them, or, if it never does that, they were written.
func (c *Core) Delivered(now Moment, id PeerID, ids []wire.GUID) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.client == nil {
		return
	}
	for _, id := range ids {
		j := c.jobs[id]
		if j == nil || j.isOpen() || j.line.client != p.client || j.list == nil || j.list == &c.acked {
			continue
		}
		if j.list == &p.sent {
			p.window -= j.result().Size
		} else if s := c.peers[j.owner]; s != nil && j.list == &s.sent {
			s.window -= j.result().Size
		}
		c.delivered(j)
	}
	c.deliver(p)
	c.release(p.client)
	c.evict()
}

// Written is Delivered for a connection whose client acknowledges nothing.
func (c *Core) Written(now Moment, id PeerID, ids []wire.GUID) {
	if p := c.peers[id]; p != nil && !p.features.resultAck {
		c.Delivered(now, id, ids)
	}
}

func (c *Core) delivered(j *job) {
	j.leave()
	size := int64(j.result().Size)
	j.line.client.results -= size
	c.write(deliveredRecord(j))
	if j.state == ended {
		c.acked.pushBack(j)
		c.ackedBytes += size
	}
}

// evict forgets the oldest results that their clients have.
func (c *Core) evict() {
	for c.acked.n > c.cfg.KeepAcked || c.ackedBytes > c.cfg.AckedBytes && c.acked.n > 0 {
		j := c.acked.first
		c.ackedBytes -= int64(j.result().Size)
		c.forget(j)
	}
}

const sweepEvery = time.Minute

// sweep forgets results whose clients have not come for them.
func (c *Core) sweep() {
	old := func(l *list) {
		for l.first != nil && c.now-l.first.since > c.cfg.KeepResult {
			j := l.first
			if p := c.peers[j.owner]; p != nil && l == &p.sent {
				p.window -= j.result().Size
			}
			c.Counts.ResultsExpired++
			c.write(deliveredRecord(j))
			j.line.client.results -= int64(j.result().Size)
			if j.leave(); j.state == ended {
				c.forget(j)
			}
		}
	}
	for _, cl := range c.clients {
		old(&cl.waiting)
		for _, s := range cl.sessions {
			old(&s.unsent)
			old(&s.sent)
		}
		c.release(cl)
	}
}
