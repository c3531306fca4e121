package cli

import (
	"encoding/json"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// gridEnd is one end of a connection to a leader.
type gridEnd struct {
	*link.Conn
	t *testing.T
}

// gridHello connects to a leader and says hello.
func gridHello(t *testing.T, addr string, hello wire.Frame) *gridEnd {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	e := &gridEnd{link.New(conn, link.Options{Dialed: true}), t}
	t.Cleanup(func() { e.Abort(net.ErrClosed) })
	e.send(hello)
	if f := e.next(); f.Type != wire.Welcome {
		t.Fatalf("a hello is answered with %s", f.Type)
	}
	e.Ping()
	return e
}

func (e *gridEnd) send(frames ...wire.Frame) {
	e.t.Helper()
	if err := e.Wait(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
	if err := e.Send(frames...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *gridEnd) next() wire.Frame {
	e.t.Helper()
	f, err := e.Receive()
	if err != nil {
		e.t.Fatal(err)
	}
	return f
}

var gridFeatures = []string{
	wire.FeatureAccept, wire.FeatureCancel, wire.FeaturePing, wire.FeatureError, wire.FeatureSubmitAck, wire.FeatureResultAck,
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func gridClientHello(t *testing.T) wire.Frame {
	t.Helper()
	return wire.Frame{Type: wire.HelloClient, Subject: "clientA", Payload: mustJSON(t, wire.ClientConfig{ClientID: "clientA", DesiredParallelism: 10_000, Features: gridFeatures})}
}

func gridWorkerHello(t *testing.T, id wire.GUID, most int, running ...wire.Running) wire.Frame {
	t.Helper()
	return wire.Frame{Type: wire.HelloWorker, MsgID: id, Payload: mustJSON(t, wire.Capability{Proto: 2, Features: gridFeatures, MaxParallel: most, Running: running})}
}

func gridCredit(n int) wire.Frame {
	return wire.Frame{Type: wire.Credit, MsgID: wire.NewGUID(), Payload: wire.AppendCredit(nil, n)}
}

// gridOK is the AckJob of a job that has succeeded.
func gridOK(t *testing.T, job, attempt wire.GUID) wire.Frame {
	t.Helper()
	text, err := wire.MarshalResult(&wire.JobResult{JobID: job, ClientID: "clientA", ExecName: "calcA", Status: wire.OK})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Frame{Type: wire.AckJob, MsgID: attempt, CorrID: job, Payload: text}
}

// A leader with a million jobs queued and a thousand that run is killed. Soon after it is started again it assigns jobs. Each job has one result, and
// those that ran are not run again.
func TestG73MillionJobsSurviveLeaderRestart(t *testing.T) {
	if !bigChaos() {
		t.Skip("GRIDCHAOS is not set: it takes a minute")
	}
	const queued, running = 1_000_000, 1000
	g := &faultGrid{t, t.TempDir()} // on a disk
	addr := freeAddr(t)
	leader := g.leader(addr, "leader")
	began := time.Now()
	results := map[wire.GUID]int{}
	client := gridHello(t, addr, gridClientHello(t))
	base := wire.NewGUID()
	var submitting sync.WaitGroup
	submitting.Go(func() {
		for n := range queued + running {
			id := wire.ElementID(base, int64(n))
			text, err := wire.MarshalRequest(&wire.JobRequest{JobID: id, ClientID: "clientA", ExecName: "calcA"})
			if err == nil {
				err = client.Wait(t.Context())
			}
			if err == nil {
				err = client.Send(wire.Frame{Type: wire.SubmitJob, MsgID: id, Subject: wire.SubmitSubject("calcA"), Payload: text})
			}
			if err != nil {
				t.Errorf("submit job %d: %v", n, err)
				client.Abort(err)
				return
			}
		}
	})
	for acknowledged := 0; acknowledged < queued+running; {
		f := client.next()
		ids, err := wire.GUIDs(f.Payload)
		if f.Type != wire.SubmitAck || err != nil {
			t.Fatalf("the client is sent %s, %v", f.Type, err)
		}
		acknowledged += len(ids)
	}
	submitting.Wait()
	t.Logf("%d jobs were submitted in %s", queued+running, time.Since(began))
	id := wire.NewGUID()
	worker := gridHello(t, addr, gridWorkerHello(t, id, running))
	worker.send(gridCredit(running))
	held := map[wire.GUID]wire.GUID{}
	for len(held) < running {
		if f := worker.next(); f.Type == wire.AssignJob {
			held[f.MsgID] = f.CorrID
			worker.send(wire.Frame{Type: wire.Accept, MsgID: f.CorrID, CorrID: f.MsgID})
		}
	}
	leader.kill()

	began = time.Now()
	g.leader(addr, "leader")
	listens := time.Since(began)
	drain := gridHello(t, addr, gridWorkerHello(t, wire.NewGUID(), 10_000))
	drain.send(gridCredit(1))
	first := drain.next()
	t.Logf("after kill -9 it listens within %s and assigns within %s", listens, time.Since(began))
	var still []wire.Running
	for job, attempt := range held {
		still = append(still, wire.Running{JobID: job, AttemptID: attempt})
	}
	worker = gridHello(t, addr, gridWorkerHello(t, id, running, still...))
	client = gridHello(t, addr, gridClientHello(t))
	began = time.Now()
	var working sync.WaitGroup
	working.Go(func() {
		for job, attempt := range held {
			if worker.Send(gridOK(t, job, attempt)) != nil {
				return
			}
		}
		for {
			f, err := worker.Receive()
			if err != nil {
				return
			}
			if f.Type != wire.ResultAck && f.Type != wire.Ping && f.Type != wire.Pong {
				t.Errorf("the worker whose jobs went on is sent %s %s %s", f.Type, f.CorrID, f.Payload)
			}
		}
	})
	working.Go(func() {
		f, err := first, drain.Send(gridCredit(9_000))
		for ; err == nil; f, err = drain.Receive() {
			if f.Type != wire.AssignJob {
				continue
			}
			if _, runs := held[f.MsgID]; runs {
				t.Errorf("job %s runs already and is assigned again", f.MsgID)
			}
			if drain.Wait(t.Context()) != nil || drain.Send(gridOK(t, f.MsgID, f.CorrID), gridCredit(1)) != nil {
				return
			}
		}
	})
	var acks []wire.GUID
	for len(results) < queued+running {
		f := client.next()
		if f.Type != wire.Result {
			continue
		}
		if results[f.MsgID]++; results[f.MsgID] > 1 {
			t.Fatalf("job %s has %d results", f.MsgID, results[f.MsgID])
		}
		if acks = append(acks, f.MsgID); len(acks) == 256 || !client.Ready() {
			client.send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, acks...)})
			acks = nil
		}
	}
	t.Logf("all results are there after another %s", time.Since(began))
	for n := range queued + running {
		if results[wire.ElementID(base, int64(n))] != 1 {
			t.Fatalf("job %d has no result", n)
		}
	}
	worker.Abort(net.ErrClosed)
	drain.Abort(net.ErrClosed)
	working.Wait()
}
