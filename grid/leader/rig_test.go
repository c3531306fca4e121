package leader_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testnet"
)

// rig is a leader on a free port.
type rig struct {
	*leader.Leader
	t     testing.TB
	addr  string
	pipes *testnet.Pipes // nil for TCP
	stop  func() error   // ends the leader and closes it, once
}

// start runs a leader until the test ends.
func start(tb testing.TB, l *leader.Leader) *rig {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return startOn(tb, l, listener)
}

// startOn is start with a listener.
func startOn(tb testing.TB, l *leader.Leader, listener net.Listener) *rig {
	tb.Helper()
	if l.Log == nil {
		l.Log = slog.New(slog.DiscardHandler)
	}
	if err := l.Open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var served, ran error
	running.Go(func() { served = l.Serve(ctx, listener) })
	running.Go(func() { ran = l.Run(ctx) })
	r := &rig{Leader: l, t: tb, addr: listener.Addr().String()}
	r.stop = sync.OnceValue(func() error {
		cancel()
		running.Wait()
		return errors.Join(served, ran, l.Close())
	})
	tb.Cleanup(func() {
		if err := r.stop(); err != nil {
			tb.Errorf("stop the leader: %v", err)
		}
	})
	return r
}

// end is one end of a connection to a leader.
type end struct {
	*link.Conn
	t testing.TB
}

func (r *rig) dial() *end {
	r.t.Helper()
	open := (&net.Dialer{}).DialContext
	if r.pipes != nil {
		open = r.pipes.Dial
	}
	conn, err := open(r.t.Context(), "tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	e := &end{Conn: link.New(conn, link.Options{Dialed: true}), t: r.t}
	r.t.Cleanup(func() { e.Abort(net.ErrClosed) })
	return e
}

func (e *end) send(frames ...wire.Frame) {
	e.t.Helper()
	if err := e.Send(frames...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) next() wire.Frame {
	e.t.Helper()
	f, err := e.Receive()
	if err != nil {
		e.t.Fatal(err)
	}
	return f
}

// client connects one. Without features it is of the original protocol.
func (r *rig) client(id string, desired int, features ...string) *end {
	e := r.dial()
	config := wire.ClientConfig{ClientID: id, DesiredParallelism: desired, Features: features}
	text, err := json.Marshal(config)
	if err != nil {
		r.t.Fatal(err)
	}
	e.send(wire.Frame{Type: wire.HelloClient, Subject: id, Payload: text})
	e.welcomed(features)
	return e
}

// worker connects one, with credit for n jobs.
func (r *rig) worker(n int, features ...string) *end {
	e := r.dial()
	hello := wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID()}
	if len(features) > 0 {
		var err error
		if hello.Payload, err = json.Marshal(wire.Capability{Proto: 2, Features: features, MaxParallel: n, Host: "host"}); err != nil {
			r.t.Fatal(err)
		}
	}
	e.send(hello, credit(n))
	e.welcomed(features)
	return e
}

func (e *end) welcomed(features []string) {
	e.t.Helper()
	if len(features) == 0 {
		return
	}
	if f := e.next(); f.Type != wire.Welcome {
		e.t.Fatalf("a hello is answered with %s", f.Type)
	}
}

func credit(n int) wire.Frame {
	return wire.Frame{Type: wire.Credit, MsgID: wire.NewGUID(), Payload: wire.AppendCredit(nil, n)}
}

func submission(client, exec string, args ...string) (wire.GUID, wire.Frame) {
	r := wire.JobRequest{JobID: wire.NewGUID(), ClientID: client, ExecName: exec, Args: args}
	text, err := wire.MarshalRequest(&r)
	if err != nil {
		panic(err)
	}
	return r.JobID, wire.Frame{Type: wire.SubmitJob, MsgID: r.JobID, Subject: wire.SubmitSubject(exec), Payload: text}
}

// ok is the AckJob of a job that has succeeded.
func ok(assign wire.Frame) wire.Frame {
	var r wire.JobRequest
	if err := json.Unmarshal(assign.Payload, &r); err != nil {
		panic(err)
	}
	text, err := wire.MarshalResult(&wire.JobResult{JobID: r.JobID, ClientID: r.ClientID, ExecName: r.ExecName, Status: wire.OK, Stdout: "done " + strconv.Itoa(len(r.Args))})
	if err != nil {
		panic(err)
	}
	return wire.Frame{Type: wire.AckJob, MsgID: assign.CorrID, CorrID: assign.MsgID, Payload: text}
}
