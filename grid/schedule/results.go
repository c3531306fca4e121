package schedule

import (
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// owe sends the result of a job to its client, or keeps it until the client connects.
func (c *Core) owe(j *job) {
	if !c.owed(j) {
		j.line.client.results += int64(j.result().Size)
	}
	c.toDeliver(j)
	if p := c.peers[j.owner]; p != nil {
		c.deliver(p)
	}
}

// owed reports whether the client has not acknowledged the result of a job.
func (c *Core) owed(j *job) bool { return !j.isOpen() && j.list != nil && j.list != &c.acked }

// settle removes a result that need not be sent any more, and makes room for others.
func (c *Core) settle(j *job) {
	j.leave()
	cl := j.line.client
	cl.results -= int64(j.result().Size)
	c.release(cl)
	if p := c.peers[j.owner]; p != nil && p.client == cl {
		c.deliver(p)
	}
}

// toDeliver queues a result on the connection that has submitted the job, or on the client's newest connection without the feature own, or for the
// client's next connection.
func (c *Core) toDeliver(j *job) {
	cl := j.line.client
	p := c.peers[j.owner]
	if of, _, ok := j.element(); ok && p == nil {
		p = c.peers[of.job.owner] // the array may have been submitted again
	}
	if p == nil || p.client != cl {
		p = nil
		for _, s := range cl.sessions {
			if !s.features.own {
				p = s
			}
		}
	}
	j.owner = 0
	if p != nil {
		j.owner = p.id
	}
	j.leave()
	if p == nil {
		cl.waiting.pushBack(j)
		return
	}
	p.unsent.pushBack(j)
}

// deliver sends results over a connection, up to Config.ResultWindow.
func (c *Core) deliver(p *peer) {
	for p.unsent.first != nil && p.sent.bytes < int64(c.cfg.ResultWindow) {
		j := p.unsent.first
		j.leave()
		p.sent.pushBack(j)
		c.emit(Effect{Op: Result, Peer: p.id, Job: j.id, Client: p.client.name, Body: j.result()})
	}
}

// Delivered processes acknowledged results of a client; see [Core.Written] for clients without ResultAck.
func (c *Core) Delivered(now Moment, id PeerID, ids []wire.GUID) {
	c.at(now)
	p := c.peers[id]
	if p == nil || p.client == nil {
		return
	}
	for _, id := range ids {
		if j := c.jobs[id]; j != nil && j.line.client == p.client && c.owed(j) {
			c.write(j, deliveredRecord)
			c.delivered(j)
		}
	}
	c.evict()
}

// Written is [Core.Delivered] for results that were written to a client without ResultAck.
func (c *Core) Written(now Moment, id PeerID, ids []wire.GUID) {
	if p := c.peers[id]; p != nil && !p.features.resultAck {
		c.Delivered(now, id, ids)
	}
}

// delivered keeps a result that its client has, in case the job is submitted again. A dead letter keeps its result anyway.
func (c *Core) delivered(j *job) {
	c.settle(j)
	if j.state == ended {
		c.acked.pushBack(j)
	}
}

// evict drops the oldest acknowledged results beyond the limits.
func (c *Core) evict() {
	for c.acked.n > c.cfg.KeepAcked || c.acked.bytes > c.cfg.AckedBytes && c.acked.n > 0 {
		c.forget(c.acked.first)
	}
}

const sweepEvery = time.Minute

// sweep drops results that were not fetched within Config.KeepResult.
func (c *Core) sweep() {
	for _, cl := range c.clients {
		c.sweepList(&cl.waiting)
		for _, s := range cl.sessions {
			c.sweepList(&s.unsent)
			c.sweepList(&s.sent)
		}
	}
	c.sweepWorkers()
}

func (c *Core) sweepList(l *list) {
	for l.first != nil && c.now-l.first.since > c.cfg.KeepResult {
		j := l.first
		c.Counts.ResultsExpired++
		c.settle(j)
		if j.state == dead {
			c.write(j, deliveredRecord)
			continue
		}
		c.write(j, dropRecord)
		c.forget(j)
	}
}
