package schedule

import (
	"github.com/batchfleet/batchfleet/grid/wire"
)

// peer is a connection that has said hello: a session of a client, or a worker.
type peer struct {
	id       PeerID
	since    Moment
	features features

	// Of a client.
	client *client
	unsent list // results
	sent   list // results that it has not acknowledged
	window int  // bytes of sent
	tied   map[*job]bool

	// Of a worker.
	group    *group
	worker   wire.GUID
	host     string
	credit   int // jobs that it may be given
	busy     int // slots for which it has not given credit again
	limit    int // of credit and busy together
	assigned int64
	running  []*attempt
	index    int // in group.free, from 1
	turn     uint64
	draining bool
	offences int
	cpu      float64
}

// features are those of a peer that matter here.
type features struct{ accept, cancel, resultAck, submitAck, array bool }

func featuresOf(names []string) (f features) {
	for _, name := range names {
		switch name {
		case wire.FeatureAccept:
			f.accept = true
		case wire.FeatureCancel:
			f.cancel = true
		case wire.FeatureResultAck:
			f.resultAck = true
		case wire.FeatureSubmitAck:
			f.submitAck = true
		case wire.FeatureArray:
			f.array = true
		}
	}
	return f
}

// Gone tells of a connection that has ended. What its worker ran is queued again, before other jobs.
func (c *Core) Gone(now Moment, id PeerID) {
	c.at(now)
	p := c.peers[id]
	if p == nil {
		return
	}
	delete(c.peers, id)
	if p.client != nil {
		c.sessionGone(p)
		return
	}
	c.removeWorker(p)
	for len(p.running) > 0 {
		c.lost(p.running[len(p.running)-1], "its worker was lost", true)
	}
}

// client is who submits jobs, over any number of connections.
type client struct {
	name     string
	cap      int
	known    bool    // cap was declared
	sessions []*peer // the newest last
	waiting  list    // results, while no session is there to take them
	running  int     // attempts at its jobs
	jobs     int     // that are known
	results  int64   // bytes of results that it has not acknowledged
	lines    map[*exec]*line
	held     []*line // have jobs, and wait until it has room
}

func (c *Core) client(name string) *client {
	cl := c.clients[name]
	if cl == nil {
		cl = &client{name: name, cap: c.cfg.DefaultCap, lines: map[*exec]*line{}}
		c.clients[name] = cl
	}
	return cl
}

// dropClient forgets a client of which there is nothing to know.
func (c *Core) dropClient(cl *client) {
	if len(cl.sessions) == 0 && cl.jobs == 0 && c.clients[cl.name] == cl {
		delete(c.clients, cl.name)
	}
}

// hasRoom reports whether one more of its jobs may run.
func (cl *client) hasRoom(c *Core) bool {
	return cl.running < cl.cap && cl.results < c.cfg.MaxResults
}

// ClientHello tells of a connection of a client. The cap holds for all its connections; 0 for the one that it has, or the default.
func (c *Core) ClientHello(now Moment, id PeerID, name string, maxRunning int, features []string) {
	c.at(now)
	cl := c.client(name)
	p := &peer{id: id, since: c.now, client: cl, features: featuresOf(features)}
	c.peers[id] = p
	cl.sessions = append(cl.sessions, p)
	if maxRunning == 0 && !cl.known {
		maxRunning = c.cfg.DefaultCap
	}
	if maxRunning > 0 && (maxRunning != cl.cap || !cl.known) {
		cl.cap, cl.known = maxRunning, true
		c.write(capRecord(name, maxRunning))
		c.release(cl)
	}
	p.unsent, cl.waiting = cl.waiting, list{}
	for j := p.unsent.first; j != nil; j = j.next {
		j.list, j.owner = &p.unsent, id
	}
	c.deliver(p)
}

// sessionGone keeps the results that a connection has not taken, for another one.
func (c *Core) sessionGone(p *peer) {
	cl := p.client
	for i, s := range cl.sessions {
		if s == p {
			cl.sessions = append(cl.sessions[:i], cl.sessions[i+1:]...)
			break
		}
	}
	for _, l := range []*list{&p.sent, &p.unsent} {
		for l.first != nil {
			j := l.first
			j.leave()
			j.owner = 0
			c.toDeliver(j)
		}
	}
	if len(cl.sessions) > 0 {
		c.deliver(cl.sessions[len(cl.sessions)-1])
	}
	for j := range p.tied {
		c.cancel(j, "its client has gone")
	}
	c.dropClient(cl)
}
