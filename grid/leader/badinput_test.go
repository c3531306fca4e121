package leader_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// works runs a job of another client by another worker: what bad peers do is nothing to them.
func (r *rig) works() {
	r.t.Helper()
	client, worker := r.client("honest", 1), r.dial()
	worker.send(wire.Frame{Type: wire.HelloWorker, MsgID: wire.NewGUID(), Subject: "job.assign.honest"}, credit(1000)) // more than others have
	r.until("the worker is known", func() (known bool) {
		if err := r.Do(r.t.Context(), func(c *schedule.Core) {
			for _, w := range c.Workers() {
				known = known || w.Credit == 1000
			}
		}); err != nil {
			r.t.Fatal(err)
		}
		return known
	})
	id, submit := submission("honest", "honest")
	client.send(submit)
	worker.send(ok(worker.next()))
	if f := client.next(); f.MsgID != id || f.Type != wire.Result {
		r.t.Fatalf("the honest client was sent %s", f.Type)
	}
	client.Abort(net.ErrClosed)
	worker.Abort(net.ErrClosed)
}

func (r *rig) counts() (c schedule.Counts) {
	r.t.Helper()
	if err := r.Do(r.t.Context(), func(core *schedule.Core) { c = core.Counts }); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// raw connects without saying hello.
func (r *rig) raw() net.Conn {
	r.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// isClosed waits until the other end closes a connection.
func isClosed(t *testing.T, what string, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, conn); err != nil && !isReset(err) {
		t.Errorf("%s: the connection stays open: %v", what, err)
	}
}

func isReset(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return !ok || !e.Timeout()
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // no Linux
	}
	return len(all)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestG01BadLengthEndsConnectionWithoutAllocation(t *testing.T) {
	r := start(t, &leader.Leader{})
	r.works()
	before, open := heap(), descriptors(t)
	for range 250 {
		for _, n := range []uint32{0xFFFFFFFF, 0, 38, wire.MaxFrame + 1} {
			conn := r.raw()
			_, _ = conn.Write(binary.LittleEndian.AppendUint32(nil, n))
			isClosed(t, "a wrong length", conn)
			conn.Close()
		}
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("1000 wrong lengths took %d KiB", (after-before)>>10)
	}
	r.until("descriptors are closed", func() bool { return descriptors(t) <= open+8 })
	// A length that can be, and nothing behind it, takes no memory, either.
	var conns []net.Conn
	before = heap()
	for range 200 {
		conn := r.raw()
		_, _ = conn.Write(binary.LittleEndian.AppendUint32(nil, wire.MaxFrame))
		conns = append(conns, conn)
	}
	r.works()
	if after := heap(); after > before+200*(200<<10) {
		t.Errorf("200 claims of 4 MiB took %d KiB each", (after-before)>>10/200)
	}
	for _, conn := range conns {
		conn.Close()
	}
}

func TestG08FirstFrameMustBeAHello(t *testing.T) {
	r := start(t, &leader.Leader{})
	for _, kind := range []wire.Type{wire.SubmitJob, wire.AckJob, wire.Credit, wire.Result, wire.Welcome, wire.Ping, 20, 99, 255} {
		e := r.dial()
		e.send(wire.Frame{Type: kind})
		if f, err := e.Receive(); err == nil {
			t.Errorf("%s before a hello is answered with %s", kind, f.Type)
		}
	}
	r.works()
}

func TestG08UnknownTypesAfterHello(t *testing.T) {
	r := start(t, &leader.Leader{})
	client := r.client("clientA", 1)
	for kind := range 256 {
		switch wire.Type(kind) {
		case wire.SubmitJob, wire.ResultAck, wire.Cancel, wire.Query:
		default:
			client.send(wire.Frame{Type: wire.Type(kind), Payload: []byte("{}")})
		}
	}
	id, submit := submission("clientA", "calcA")
	client.send(submit)
	worker := r.worker(1)
	for kind := range 256 {
		switch wire.Type(kind) {
		case wire.AckJob, wire.Credit, wire.Accept, wire.Renew, wire.Cancel, wire.Drain, wire.Report:
		default:
			worker.send(wire.Frame{Type: wire.Type(kind), Payload: []byte("{}")})
		}
	}
	worker.send(ok(worker.next()))
	if f := client.next(); f.MsgID != id {
		t.Errorf("the client was sent %s %s", f.Type, f.MsgID)
	}
}

func TestG34InvalidCreditsEndConnection(t *testing.T) {
	r := start(t, &leader.Leader{})
	worker := r.worker(4, every...) // its window is 4
	numbers := func() (n int) {
		t.Helper()
		if err := r.Do(t.Context(), func(c *schedule.Core) {
			for _, w := range c.Workers() {
				n = w.Credit
			}
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, payload := range [][]byte{{0, 0, 0, 0}, {255, 255, 255, 255}, {255, 255, 255, 127}, {1, 2, 3}, {1, 2, 3, 4, 5}} {
		before := r.counts().CreditViolations
		worker.send(wire.Frame{Type: wire.Credit, Payload: payload})
		r.until("it is counted", func() bool { return r.counts().CreditViolations > before })
		if n := numbers(); n != 4 {
			t.Errorf("after % x the worker has %d credits, want 4", payload, n)
		}
	}
	for range 20 {
		if worker.Send(credit(4)) != nil {
			break
		}
	}
	f, err := worker.Receive()
	var info wire.ErrorInfo
	if err != nil || json.Unmarshal(f.Payload, &info) != nil || f.Type != wire.Error || info.Code != wire.CodeProtocol {
		t.Errorf("the worker is told %+v, %v", f, err)
	}
	if f, err := worker.Receive(); err == nil {
		t.Errorf("its connection stays open: it is sent %s", f.Type)
	}
	r.works()
}

func TestG12InvalidRequestsAreRefused(t *testing.T) {
	r := start(t, &leader.Leader{})
	client, worker := r.client("clientA", 4, every...), r.worker(4, every...)
	valid := func() wire.JobRequest {
		return wire.JobRequest{JobID: wire.NewGUID(), ClientID: "clientA", ExecName: "calcA"}
	}
	with := func(change func(*wire.JobRequest)) wire.Frame {
		q := valid()
		change(&q)
		text, err := json.Marshal(&q)
		if err != nil {
			t.Fatal(err)
		}
		return wire.Frame{Type: wire.SubmitJob, MsgID: q.JobID, Subject: strings.ReplaceAll(wire.SubmitSubject(q.ExecName), "\x00", ""), Payload: text}
	}
	file := func(name string) wire.Frame {
		return with(func(q *wire.JobRequest) { q.Files = []wire.InputFile{{Name: name, Content: []byte("x")}} })
	}
	for name, f := range map[string]wire.Frame{
		"of another client":        with(func(q *wire.JobRequest) { q.ClientID = "clientB" }),
		"exec above its directory": with(func(q *wire.JobRequest) { q.ExecName = "../x" }),
		"exec with a slash":        with(func(q *wire.JobRequest) { q.ExecName = "a/b" }),
		"exec with a backslash":    with(func(q *wire.JobRequest) { q.ExecName = `a\b` }),
		"exec of a drive":          with(func(q *wire.JobRequest) { q.ExecName = "C:" }),
		"exec with a NUL":          with(func(q *wire.JobRequest) { q.ExecName = "a\x00b" }),
		"exec of 300 characters":   with(func(q *wire.JobRequest) { q.ExecName = strings.Repeat("x", 300) }),
		"empty exec":               with(func(q *wire.JobRequest) { q.ExecName = "" }),
		"file above":               file("../x"),
		"file with a slash":        file("a/b"),
		"file of a drive":          file(`C:\x`),
		"file with a NUL":          file("a\x00"),
		"file of 300 characters":   file(strings.Repeat("x", 300)),
		"the program":              file("calcA.exe"),
		"cache above": with(func(q *wire.JobRequest) {
			above := "../../bin/x"
			q.Files = []wire.InputFile{{Name: "x", CacheID: &above}}
		}),
		"argument with a NUL": with(func(q *wire.JobRequest) { q.Args = []string{"a\x00"} }),
		"a million arguments": with(func(q *wire.JobRequest) { q.Args = make([]string, 1001) }),
		"no JSON":             {Type: wire.SubmitJob, MsgID: wire.NewGUID(), Subject: "job.submit.calcA", Payload: []byte("{")},
	} {
		client.send(f)
		got := client.next()
		var info wire.ErrorInfo
		if err := json.Unmarshal(got.Payload, &info); err != nil || got.Type != wire.Error || info.Code != wire.CodeInvalid || got.CorrID != f.MsgID || info.Message == "" {
			t.Errorf("%s: the client is told %+v %+v", name, got, info)
		}
	}
	other := with(func(*wire.JobRequest) {})
	other.MsgID = wire.NewGUID()
	client.send(other)
	subject := with(func(*wire.JobRequest) {})
	subject.Subject = "job.submit.calcB"
	client.send(subject)
	for range 2 {
		if f := client.next(); f.Type != wire.Error {
			t.Errorf("another id, or another subject: %s", f.Type)
		}
	}
	if c := r.counts(); c.Submitted != 0 || c.Assigned != 0 {
		t.Errorf("%d were queued, %d assigned", c.Submitted, c.Assigned)
	}
	// The connection goes on.
	id, submit := submission("clientA", "calcA")
	client.send(submit)
	if f := worker.next(); f.MsgID != id {
		t.Errorf("then the worker is sent %s", f.Type)
	}
}

func TestG05ConnectionsWithoutHelloAreBounded(t *testing.T) {
	r := start(t, &leader.Leader{MaxConns: 64, MaxPerIP: 60})
	var conns []net.Conn
	for range 60 {
		conns = append(conns, r.raw())
	}
	isClosed(t, "one connection more than one address may have", r.raw())
	for _, conn := range conns {
		conn.Close()
	}
	r.until("those that are closed count no more", func() bool { return r.Conns() == 0 })
	r.works()
}

func TestG53ClientThatDoesNotReadKeepsItsResults(t *testing.T) {
	testrun.Long(t, "it waits until a write has taken too long")
	r := start(t, &leader.Leader{})
	slow := r.raw()
	_, err := slow.Write((&wire.Frame{Type: wire.HelloClient, Subject: "slow", Payload: []byte(`{"ClientId":"slow","DesiredParallelism":100}`)}).Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	worker := r.worker(100, every...)
	ids := map[wire.GUID]bool{}
	for range 40 {
		id, submit := submission("slow", "calcA")
		ids[id] = true
		if _, err := slow.Write(submit.Append(nil)); err != nil {
			t.Fatal(err)
		}
		assign := worker.next()
		for assign.Type != wire.AssignJob {
			assign = worker.next()
		}
		text, err := wire.MarshalResult(&wire.JobResult{JobID: id, ClientID: "slow", ExecName: "calcA", Status: wire.OK, Stdout: strings.Repeat("x", 1<<20)})
		if err != nil {
			t.Fatal(err)
		}
		worker.send(wire.Frame{Type: wire.AckJob, MsgID: assign.CorrID, CorrID: id, Payload: text}, credit(1))
	}
	r.until("the slow client is closed", func() bool {
		n := 0
		if err := r.Do(t.Context(), func(c *schedule.Core) {
			for _, cl := range c.Clients() {
				n += cl.Sessions
			}
		}); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	waiting := 0
	if err := r.Do(t.Context(), func(c *schedule.Core) { waiting = c.Numbers().Results }); err != nil {
		t.Fatal(err)
	}
	if waiting < 20 {
		t.Fatalf("%d results wait for it", waiting)
	}
	worker.Abort(net.ErrClosed)
	r.works() // whose result is not to be counted
	// What was written to it may be lost with it: a client of the original protocol acknowledges nothing. All others are sent again.
	again := r.client("slow", 100, every...)
	got := map[wire.GUID]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { again.Abort(net.ErrClosed) })
	defer stop()
	for len(got) < waiting {
		f := again.next()
		if !ids[f.MsgID] || f.Type != wire.Result {
			t.Fatalf("it is sent %s %s", f.Type, f.MsgID)
		}
		got[f.MsgID] = true
		again.send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, f.MsgID)})
	}
}

func TestG06TooLargeResultFailsJob(t *testing.T) {
	r := start(t, &leader.Leader{})
	client, worker := r.client("clientA", 4), r.worker(4, every...)
	id, submit := submission("clientA", "calcA")
	client.send(submit)
	assign := worker.next()
	result := wire.JobResult{JobID: id, ClientID: "clientA", ExecName: "calcA", Status: wire.OK}
	text, err := wire.MarshalResult(&result)
	if err != nil {
		t.Fatal(err)
	}
	result.Stdout = strings.Repeat("x", wire.MaxFrame-39-len(text)) // fits AckJob, and not Result
	if text, err = wire.MarshalResult(&result); err != nil || len(text) <= wire.MaxAck("clientA") {
		t.Fatal(len(text), err)
	}
	worker.send(wire.Frame{Type: wire.AckJob, MsgID: assign.CorrID, CorrID: id, Payload: text})
	if f := worker.next(); f.Type != wire.Error {
		t.Errorf("the worker is told %s", f.Type)
	}
	f := client.next()
	var got wire.JobResult
	if err := json.Unmarshal(f.Payload, &got); err != nil || got.Status != wire.Failed || !strings.Contains(got.Stderr, "too large") {
		t.Errorf("the client is sent %s %q", got.Status, got.Stderr)
	}
	r.works() // and the worker's connection goes on
	worker.send(credit(1))
	id, submit = submission("clientA", "calcA")
	client.send(submit)
	for f = worker.next(); f.Type != wire.AssignJob; f = worker.next() {
	}
	if f.MsgID != id {
		t.Errorf("then it is sent %s", f.MsgID)
	}
}
