package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// received is a frame as a leader of a test has got it.
type received struct {
	leader string
	at     time.Time
	wire.Frame
}

// fakeLeader plays a leader: it takes frames, and does what the test says.
type fakeLeader struct {
	net      *fakeNet
	address  string
	features []string // nil plays the original protocol
	reply    func(l *fakeLeader, c *link.Conn, f wire.Frame)

	down  bool
	conns []*link.Conn
	got   []received
}

// fakeNet is the network of a test. Its mutex guards its leaders.
type fakeNet struct {
	mu      sync.Mutex
	leaders map[string]*fakeLeader
	running sync.WaitGroup
}

var ours = []string{
	wire.FeaturePing, wire.FeatureError, wire.FeatureCancel, wire.FeatureSubmitAck, wire.FeatureResultAck, wire.FeatureQuery,
}

// newNet returns a network with leaders that have these addresses and all features.
func newNet(t *testing.T, addresses ...string) *fakeNet {
	t.Helper()
	n := &fakeNet{leaders: map[string]*fakeLeader{}}
	for _, a := range addresses {
		n.leaders[a] = &fakeLeader{net: n, address: a, features: ours, reply: queueAll}
	}
	return n
}

// start runs a client of these leaders until the test ends.
func (n *fakeNet) start(t *testing.T, cfg Config) *Multi {
	t.Helper()
	m := n.client(t, cfg)
	n.run(t, m)
	return m
}

// run runs a client until the test ends or stop is called.
func (n *fakeNet) run(t *testing.T, m *Multi) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		n.stop()
	})
	synctest.Wait()
	return stop
}

// client returns a client of these leaders.
func (n *fakeNet) client(t *testing.T, cfg Config) *Multi {
	t.Helper()
	if cfg.ClientID == "" {
		cfg.ClientID = "clientA"
	}
	if cfg.Leaders == nil {
		for a := range n.leaders {
			cfg.Leaders = append(cfg.Leaders, a)
		}
		slices.Sort(cfg.Leaders)
	}
	cfg.Dial = n.dial
	cfg.Log = slog.New(slog.DiscardHandler)
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (n *fakeNet) stop() {
	for _, l := range n.leaders {
		l.crash()
	}
	n.running.Wait()
}

func (n *fakeNet) dial(_ context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.leaders[address]
	if l.down {
		return nil, syscall.ECONNREFUSED
	}
	ours, theirs := net.Pipe()
	c := link.New(theirs, link.Options{})
	l.conns = append(l.conns, c)
	n.running.Go(func() { l.serve(c) })
	return ours, nil
}

func (l *fakeLeader) serve(c *link.Conn) {
	defer c.Abort(io.EOF)
	for {
		f, err := c.Receive()
		if err != nil {
			return
		}
		r := received{l.address, time.Now(), f}
		l.net.mu.Lock()
		l.got = append(l.got, r)
		reply, features := l.reply, l.features
		l.net.mu.Unlock()
		if f.Type == wire.HelloClient && features != nil {
			_ = c.Send(wire.Frame{Type: wire.Welcome, MsgID: wire.NewGUID(), Payload: must(json.Marshal(wire.WelcomeInfo{Proto: 2, Features: features}))})
		}
		reply(l, c, f)
	}
}

// queueAll queues all jobs, and never runs them.
func queueAll(l *fakeLeader, c *link.Conn, f wire.Frame) {
	if f.Type == wire.SubmitJob && l.features != nil {
		_ = c.Send(wire.Frame{Type: wire.SubmitAck, Payload: wire.AppendGUIDs(nil, f.MsgID)})
	}
}

// runAll answers all jobs at once.
func runAll(l *fakeLeader, c *link.Conn, f wire.Frame) {
	queueAll(l, c, f)
	if f.Type == wire.SubmitJob {
		_ = c.Send(resultOf(f.MsgID, l.address))
	}
}

// refuseAll returns what answers all jobs with an error.
func refuseAll(code string) func(*fakeLeader, *link.Conn, wire.Frame) {
	return func(_ *fakeLeader, c *link.Conn, f wire.Frame) {
		if f.Type == wire.SubmitJob {
			_ = c.Send(errorFrame(f.MsgID, code))
		}
	}
}

func errorFrame(about wire.GUID, code string) wire.Frame {
	return wire.Frame{Type: wire.Error, CorrID: about, Payload: must(json.Marshal(wire.ErrorInfo{Code: code, Message: "as the test wants"}))}
}

// resultOf is a result whose output tells which leader it is from.
func resultOf(id wire.GUID, from string) wire.Frame {
	payload := must(json.Marshal(wire.JobResult{JobID: id, ClientID: "clientA", ExecName: "calcA", Status: wire.OK, Stdout: from}))
	return wire.Frame{Type: wire.Result, MsgID: id, CorrID: id, Subject: wire.ResultPrefix + "clientA." + id.N(), Payload: payload}
}

// crash closes all connections and takes no more.
func (l *fakeLeader) crash() {
	l.net.mu.Lock()
	l.down = true
	conns := l.conns
	l.conns = nil
	l.net.mu.Unlock()
	for _, c := range conns {
		c.Abort(errors.New("crash"))
	}
}

// drop closes all connections. New ones can be made at once.
func (l *fakeLeader) drop() {
	l.crash()
	l.back()
}

func (l *fakeLeader) back() {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	l.down = false
}

// plays says how the leader answers from now on.
func (l *fakeLeader) plays(reply func(*fakeLeader, *link.Conn, wire.Frame)) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	l.reply = reply
}

// send sends a frame over the newest connection.
func (l *fakeLeader) send(t *testing.T, f wire.Frame) {
	t.Helper()
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if len(l.conns) == 0 {
		t.Fatalf("leader %s has no connection", l.address)
	}
	if err := l.conns[len(l.conns)-1].Send(f); err != nil {
		t.Fatal(err)
	}
}

// frames returns what the leader has got.
func (l *fakeLeader) frames() []received {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	return slices.Clone(l.got)
}

// ids returns the ids that the leader has got in frames of a type, in order.
func (l *fakeLeader) ids(t *testing.T, typ wire.Type) []wire.GUID {
	t.Helper()
	var all []wire.GUID
	for _, r := range l.frames() {
		switch {
		case r.Type != typ:
		case typ == wire.ResultAck:
			ids, err := wire.GUIDs(r.Payload)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ids...)
		case typ == wire.SubmitJob:
			all = append(all, r.MsgID)
		default:
			all = append(all, r.CorrID)
		}
	}
	return all
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// submit submits a job to calcA.
func submit(t *testing.T, m *Multi) *Job {
	t.Helper()
	j, err := m.Submit(t.Context(), wire.JobRequest{ExecName: "calcA"})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return j
}

// result returns from which leader the result of a job is.
func result(t *testing.T, j *Job) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	r, err := j.Wait(ctx)
	if err != nil {
		t.Errorf("job %s: %v", j.ID, err)
	}
	return r.Stdout
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
