package member_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testnet"
)

// features are those of a leader of ours.
var features = []string{
	wire.FeatureAccept, wire.FeatureCancel, wire.FeaturePing, wire.FeatureError, wire.FeatureResultAck, wire.FeatureDrain, wire.FeatureArray,
}

// leader notes what it is sent. It acknowledges results unless told not to.
type leader struct {
	*rig
	addr     string
	net      *testnet.Pipes
	features []string // none for a leader of the original protocol
	refuses  string   // the code of the error with which it answers a hello
	keeps    bool     // it acknowledges no results

	mu    sync.Mutex
	down  bool
	dials []time.Time
	all   int // connections so far
	nets  []*mute
	conns []*link.Conn
	said  []wire.Frame // on all connections
}

// dial notes a dial, and reports whether it is refused.
func (l *leader) dial() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials = append(l.dials, time.Now())
	return l.down
}

// dialed returns when the leader was dialed, and forgets that.
func (l *leader) dialed() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	dials := l.dials
	l.dials = nil
	return dials
}

// connections returns how many there were, open how many there are.
func (l *leader) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

func (l *leader) open() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		if c.Err() == nil {
			n++
		}
	}
	return n
}

// freeze keeps the present connections open and says nothing more over them.
func (l *leader) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.nets {
		c.frozen.Store(true)
	}
}

// mute is a connection that may be frozen: what is written then is lost.
type mute struct {
	net.Conn
	frozen atomic.Bool
}

func (m *mute) Write(p []byte) (int, error) {
	if m.frozen.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

func (l *leader) serve() {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := l.net.Accept()
		if err != nil {
			return
		}
		under := &mute{Conn: conn}
		c := link.New(under, link.Options{})
		l.mu.Lock()
		l.all++
		l.nets = append(l.nets, under)
		l.conns = append(l.conns, c)
		l.mu.Unlock()
		serving.Go(func() { l.receive(c) })
	}
}

func (l *leader) receive(c *link.Conn) {
	defer c.Abort(nil)
	for {
		f, err := c.Receive()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.said = append(l.said, f)
		welcome, refuses, keeps := l.features, l.refuses, l.keeps
		l.mu.Unlock()
		switch {
		case f.Type == wire.HelloWorker && refuses != "":
			_ = c.Send(wire.Frame{Type: wire.Error, Payload: must(wire.ErrorInfo{Code: refuses, Message: "not you"})})
			_ = c.Close()
			return
		case f.Type == wire.HelloWorker && welcome != nil:
			_ = c.Send(wire.Frame{Type: wire.Welcome, MsgID: id(99), Payload: must(wire.WelcomeInfo{Proto: 2, Features: welcome, LeaseMs: 30_000})})
			c.Ping()
		case f.Type == wire.AckJob && welcome != nil && !keeps:
			_ = c.Send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, f.CorrID)})
		}
	}
}

// send sends over the newest connection.
func (l *leader) send(frames ...wire.Frame) {
	l.Helper()
	l.mu.Lock()
	c := l.conns[len(l.conns)-1]
	l.mu.Unlock()
	if err := c.Send(frames...); err != nil {
		l.Fatal(err)
	}
	synctest.Wait()
}

// assign assigns a job as an attempt, which is none for 0.
func (l *leader) assign(job, attempt int) {
	l.Helper()
	l.send(assignment(job, attempt))
}

// assignEach assigns jobs, one after the other.
func (l *leader) assignEach(jobs ...int) {
	l.Helper()
	for _, n := range jobs {
		l.assign(n, 10+n)
		time.Sleep(time.Millisecond)
	}
}

func (l *leader) cancel(job, attempt int, reason string) {
	l.Helper()
	f := wire.Frame{Type: wire.Cancel, CorrID: id(job), Payload: must(wire.CancelInfo{Reason: reason})}
	if attempt != 0 {
		f.MsgID = id(attempt)
	}
	l.send(f)
}

func assignment(job, attempt int) wire.Frame {
	f := wire.Frame{Type: wire.AssignJob, MsgID: id(job), Subject: "job.assign.calcA." + id(98).N()}
	f.Payload = must(wire.JobRequest{JobID: f.MsgID, ClientID: "clientA", ExecName: "calcA", Args: []string{}, Files: []wire.InputFile{}})
	if attempt != 0 {
		f.CorrID = id(attempt)
	}
	return f
}

// hangUp ends all connections.
func (l *leader) hangUp() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for _, c := range conns {
		c.Abort(nil)
	}
}

// goDown ends all connections and refuses others, until up is called.
func (l *leader) goDown() {
	l.mu.Lock()
	l.down = true
	l.mu.Unlock()
	l.hangUp()
	synctest.Wait()
}

func (l *leader) up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
