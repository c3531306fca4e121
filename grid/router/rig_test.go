package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/router"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/pipenet"
	"github.com/batchfleet/batchfleet/internal/testnet"
)

// server is a leader or a router that listens in memory.
type server struct {
	listener *recorder
	stop     func() // in order, once
}

// recorder keeps the connections of a listener, so that they can be cut.
type recorder struct {
	*testnet.Pipes
	mu    sync.Mutex
	conns []net.Conn
}

func (r *recorder) Accept() (net.Conn, error) {
	conn, err := r.Pipes.Accept()
	r.keep(conn)
	return conn, err
}

func (r *recorder) keep(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if conn != nil {
		r.conns = append(r.conns, conn)
	}
}

// kill ends a server as kill -9 does: its connections end, in the middle of what they carry.
func (s *server) kill() {
	s.listener.Close()
	s.listener.mu.Lock()
	for _, conn := range s.listener.conns {
		conn.Close()
	}
	s.listener.mu.Unlock()
	s.stop()
}

// rig is some leaders, and a router before them.
type rig struct {
	t       *testing.T
	leaders map[string]*node
	router  *server
	roomy   bool       // what ends write has room before it is read
	mu      sync.Mutex // guards where, and router
	where   map[string]*testnet.Pipes
}

// node is a leader.
type node struct {
	server
	*leader.Leader
}

var quiet = slog.New(slog.DiscardHandler)

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// newRig starts leaders with these addresses and a router.
func newRig(t *testing.T, addresses ...string) *rig {
	t.Helper()
	r := &rig{t: t, leaders: map[string]*node{}, where: map[string]*testnet.Pipes{}}
	for _, a := range addresses {
		r.startLeader(a)
	}
	r.startRouter(&router.Router{})
	return r
}

func (r *rig) startLeader(address string) {
	r.t.Helper()
	l := &leader.Leader{Log: quiet}
	if err := l.Open(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.leaders[address] = &node{r.serve(address, func(ctx context.Context, listener net.Listener) error {
		var running sync.WaitGroup
		var served error
		running.Go(func() { served = l.Serve(ctx, listener) })
		err := l.Run(ctx)
		running.Wait()
		return errors.Join(served, err)
	}), l}
}

// startRouter starts a router in place of the one before.
func (r *rig) startRouter(to *router.Router) {
	r.t.Helper()
	cables := &recorder{} // to the leaders
	to.Log = quiet
	if to.Leaders == nil {
		for a := range r.leaders {
			to.Leaders = append(to.Leaders, a)
		}
	}
	to.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := r.dialTo(ctx, address)
		cables.keep(conn)
		return conn, err
	}
	if err := to.Open(); err != nil {
		r.t.Fatal(err)
	}
	s := r.serve("router:1", to.Serve)
	stop := s.stop
	s.stop = func() {
		cables.mu.Lock()
		for _, conn := range cables.conns {
			conn.Close()
		}
		cables.mu.Unlock()
		stop()
	}
	r.router = &s
}

// serve runs a server until the test ends.
func (r *rig) serve(address string, serve func(context.Context, net.Listener) error) server {
	listener := &recorder{Pipes: testnet.NewPipes()}
	r.mu.Lock()
	r.where[address] = listener.Pipes
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, listener) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			r.t.Errorf("serve %s: %v", address, err)
		}
	})
	r.t.Cleanup(stop)
	return server{listener, stop}
}

func (r *rig) dialTo(ctx context.Context, address string) (net.Conn, error) {
	r.mu.Lock()
	to := r.where[address]
	r.mu.Unlock()
	if to == nil {
		return nil, syscall.ECONNREFUSED
	}
	return to.Dial(ctx, "tcp", address)
}

// numbers are those of a leader.
func (r *rig) numbers(address string) (n schedule.Numbers, c schedule.Counts) {
	r.t.Helper()
	synctest.Wait()
	if err := r.leaders[address].Do(r.t.Context(), func(core *schedule.Core) { n, c = core.Numbers(), core.Counts }); err != nil {
		r.t.Fatal(err)
	}
	return n, c
}

// end is one end of a connection to a leader or the router.
type end struct {
	*link.Conn
	t    *testing.T
	name string // of a client
}

func (r *rig) dial(address string) *end {
	r.t.Helper()
	conn, err := r.dialTo(r.t.Context(), address)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.roomy {
		conn = pipenet.Roomy(conn)
	}
	e := &end{Conn: link.New(conn, link.Options{Dialed: true}), t: r.t}
	late := time.AfterFunc(time.Hour, func() { e.Abort(errors.New("an hour has passed")) }) // of the bubble
	r.t.Cleanup(func() {
		late.Stop()
		e.Abort(net.ErrClosed)
	})
	return e
}

func (e *end) send(frames ...wire.Frame) {
	e.t.Helper()
	if err := e.Send(frames...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) next(want wire.Type) wire.Frame {
	e.t.Helper()
	f, err := e.Receive()
	if err != nil {
		e.t.Fatalf("%s is awaited: %v", want, err)
	}
	if f.Type != want {
		e.t.Fatalf("%s is awaited, and %s has come: %s", want, f.Type, f.Payload)
	}
	return f
}

// all are the features of a client that this project has, but for pings, which it would have to answer all the time.
var all = []string{
	wire.FeatureError, wire.FeatureCancel, wire.FeatureSubmitAck, wire.FeatureResultAck, wire.FeatureQuery,
}

// client connects one to the router. Without features it is of the original protocol.
func (r *rig) client(name, token string, features ...string) *end {
	r.t.Helper()
	e := r.dial("router:1")
	e.name = name
	text, err := json.Marshal(wire.ClientConfig{ClientID: name, DesiredParallelism: 1000, Features: features, Token: token})
	if err != nil {
		r.t.Fatal(err)
	}
	e.send(wire.Frame{Type: wire.HelloClient, Subject: name, Payload: text})
	return e
}

// welcomed connects a client with all features.
func (r *rig) welcomed(name string) *end {
	r.t.Helper()
	e := r.client(name, "", all...)
	e.next(wire.Welcome)
	return e
}

// job returns the request of a job to calcA.
func (e *end) job(args ...string) wire.Frame { return e.jobOf("calcA", args...) }

func (e *end) jobOf(exec string, args ...string) wire.Frame {
	e.t.Helper()
	request := wire.JobRequest{JobID: wire.NewGUID(), ClientID: e.name, ExecName: exec, Args: args}
	text, err := wire.MarshalRequest(&request)
	if err != nil {
		e.t.Fatal(err)
	}
	return wire.Frame{Type: wire.SubmitJob, MsgID: request.JobID, Subject: wire.SubmitSubject(exec), Payload: text}
}

func ack(ids ...wire.GUID) wire.Frame {
	return wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, ids...)}
}

// queued waits until these jobs are acknowledged.
func (e *end) queued(jobs ...wire.Frame) {
	e.t.Helper()
	missing := map[wire.GUID]bool{}
	for _, f := range jobs {
		missing[f.MsgID] = true
	}
	for len(missing) > 0 {
		ids, err := wire.GUIDs(e.next(wire.SubmitAck).Payload)
		if err != nil {
			e.t.Fatal(err)
		}
		for _, id := range ids {
			delete(missing, id)
		}
	}
}

// worker runs all jobs of a leader at once, until the test ends.
func (r *rig) worker(address string) {
	r.t.Helper()
	e := r.dial(address)
	const credit = 1000
	e.send(wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID()}, wire.Frame{Type: wire.Credit, MsgID: wire.NewGUID(), Payload: wire.AppendCredit(nil, credit)})
	go func() {
		for {
			f, err := e.Receive()
			if err != nil {
				return
			}
			_ = e.Send(answer(f), wire.Frame{Type: wire.Credit, MsgID: wire.NewGUID(), Payload: wire.AppendCredit(nil, 1)})
		}
	}()
}

// answer is the AckJob of a job that has succeeded. Its output is the job's first argument.
func answer(assign wire.Frame) wire.Frame {
	var r wire.JobRequest
	if err := json.Unmarshal(assign.Payload, &r); err != nil {
		panic(err)
	}
	result := wire.JobResult{JobID: r.JobID, ClientID: r.ClientID, ExecName: r.ExecName, Status: wire.OK}
	if len(r.Args) > 0 {
		result.Stdout = r.Args[0]
	}
	text, err := wire.MarshalResult(&result)
	if err != nil {
		panic(err)
	}
	return wire.Frame{Type: wire.AckJob, MsgID: assign.CorrID, CorrID: assign.MsgID, Payload: text}
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
