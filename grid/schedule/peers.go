package schedule

import (
	"cmp"
	"maps"
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// peer is a connection of a client or a worker, after its hello.
type peer struct {
	id       PeerID
	since    Moment
	features features

	// Only for a client.
	client *client
	unsent list          // results to send
	sent   list          // results that were sent and are not acknowledged
	tied   map[*job]bool // jobs that end with this connection

	// Only for a worker.
	group    *group
	worker   wire.GUID
	host     string
	credit   int // jobs that it may still be sent
	limit    int // of its credit and its jobs together
	assigned int64
	running  []*attempt
	index    int // in group.free, from 1; 0 if it is not there
	turn     uint64
	draining bool
	withheld bool // a person has asked that it is given no jobs
	offences int
}

// features are the features of a peer that this package uses.
type features struct{ accept, cancel, resultAck, submitAck, array, own bool }

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
		case wire.FeatureOwn:
			f.own = true
		}
	}
	return f
}

const clientGone = "its client has gone"

// Gone tells of a connection that has ended. What its worker ran is queued again, before other jobs. From a worker that is draining it comes back
// because it was not started, so that this counts as no attempt.
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
	c.lose(p)
	c.removeWorker(p)
	slices.SortFunc(p.running, func(a, b *attempt) int { return cmp.Compare(a.job.seq, b.job.seq) })
	for i, a := range p.running {
		a.place = i
	}
	for n := len(p.running); n > 0; n = len(p.running) { // the oldest comes last, and so is first in its line
		if a := p.running[n-1]; p.draining {
			c.handBack(a)
		} else {
			c.lost(a, "its worker was lost", true)
		}
	}
}

// client is a client, with any number of connections.
type client struct {
	name     string
	cap      int
	known    bool    // cap was declared
	sessions []*peer // its connections, the newest last
	waiting  list    // results that wait for a connection
	running  int     // attempts of its jobs
	results  int64   // bytes of results that it has not acknowledged
	lines    map[*exec]*line
	held     chain[*line]  // lines with jobs queued, which wait until the client has room
	turn     link[*client] // in Core.roomy
}

func (c *Core) client(name string) *client {
	cl := c.clients[name]
	if cl == nil {
		cl = &client{name: name, cap: c.cfg.DefaultCap, lines: map[*exec]*line{}}
		cl.turn.of = cl
		c.clients[name] = cl
	}
	return cl
}

// dropClient removes a client without connections and jobs from the state.
func (c *Core) dropClient(cl *client) {
	if len(cl.sessions) == 0 && len(cl.lines) == 0 {
		cl.turn.leave()
		delete(c.clients, cl.name)
	}
}

// hasRoom reports whether one more job of the client may run.
func (cl *client) hasRoom(c *Core) bool {
	return cl.running < cl.cap && cl.results < c.cfg.MaxResults
}

// ClientHello adds a connection of a client. The cap maxRunning holds for all its connections; 0 keeps the present or the default cap.
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
		c.writeCap(cl)
		c.release(cl)
	}
	if p.features.own {
		return
	}
	p.unsent, cl.waiting = cl.waiting, list{}
	for j := p.unsent.first; j != nil; j = j.next {
		j.list, j.owner = &p.unsent, id
	}
	c.deliver(p)
}

// sessionGone gives the unacknowledged results of a connection to another one, and cancels the jobs that are tied to it.
func (c *Core) sessionGone(p *peer) {
	cl := p.client
	cl.sessions = slices.DeleteFunc(cl.sessions, func(s *peer) bool { return s == p })
	for _, l := range []*list{&p.sent, &p.unsent} {
		for l.first != nil {
			c.toDeliver(l.first)
		}
	}
	for _, s := range cl.sessions {
		c.deliver(s)
	}
	for _, j := range slices.SortedFunc(maps.Keys(p.tied), func(a, b *job) int { return cmp.Compare(a.seq, b.seq) }) {
		c.cancel(j, clientGone)
	}
	c.dropClient(cl)
}

// tie makes a job end with a connection of its client, if it has OnDisconnect.
func (c *Core) tie(j *job, p *peer) {
	if !j.options().tie {
		return
	}
	c.untie(j)
	if p.tied == nil {
		p.tied = map[*job]bool{}
	}
	p.tied[j] = true
	j.rare.tied = p
}

func (c *Core) untie(j *job) {
	if j.rare != nil && j.rare.tied != nil {
		delete(j.rare.tied.tied, j)
		j.rare.tied = nil
	}
}
