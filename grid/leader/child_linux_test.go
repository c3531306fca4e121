package leader_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// childEnv has the directory of a leader that the test binary runs instead of tests.
const childEnv = "LEADER_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		childMain(dir, os.Args[1])
		return
	}
	os.Exit(m.Run())
}

// childMain runs a leader until SIGTERM, with files of at most LEADER_TEST_FILE_BYTES bytes, if that is set.
func childMain(dir, addr string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
	}
	l := &leader.Leader{Dir: dir, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), MinFree: 1}
	// Longer than a machine stands still that is busy with other tests.
	l.Schedule.AcceptTimeout, l.Schedule.MaxTimeout, l.Schedule.Lease, l.Schedule.Recovery = time.Minute, time.Minute, 5*time.Minute, 5*time.Minute
	if text := os.Getenv("LEADER_TEST_FILE_BYTES"); text != "" {
		var limit uint64
		_, err := fmt.Sscan(text, &limit)
		fail(err)
		signal.Ignore(syscall.SIGXFSZ)
		fail(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}))
	}
	fail(l.Open(ctx))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	fail(err)
	fmt.Println(listener.Addr())
	var running sync.WaitGroup
	running.Go(func() { fail(l.Serve(ctx, listener)) })
	err = l.Run(ctx)
	fail(err)
	running.Wait()
	fail(l.Close())
}

// child is a leader in a process of its own.
type child struct {
	rig
	cmd *exec.Cmd
	log *bytes.Buffer
}

// startChild starts a leader on an address, any if it is empty, and waits until it listens.
func startChild(tb testing.TB, dir, addr string, env ...string) *child {
	tb.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	c := &child{cmd: exec.CommandContext(tb.Context(), os.Args[0], addr), log: &bytes.Buffer{}} //nolint:gosec // this test itself
	c.cmd.Env = append(append(os.Environ(), childEnv+"="+dir), env...)
	c.cmd.Stderr = c.log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.kill()
		tb.Fatalf("the leader has not started: %v\n%s", err, c.log)
	}
	c.rig = rig{t: tb, addr: strings.TrimSpace(line)}
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// again starts the leader again after its end, where it was.
func (c *child) again(dir string) *child {
	c.t.Helper()
	return startChild(c.t, dir, c.addr)
}

// hello connects a worker that has attempts in hand.
func (r *rig) workerWith(id wire.GUID, n int, running []wire.Running) *end {
	r.t.Helper()
	e := r.dial()
	text, err := json.Marshal(wire.Capability{Proto: 2, Features: every, MaxParallel: n, Host: "host", Running: running})
	if err != nil {
		r.t.Fatal(err)
	}
	e.send(wire.Frame{Type: wire.HelloWorker, MsgID: id, Payload: text})
	e.welcomed(every)
	return e
}

func TestG73KilledLeaderRecovers(t *testing.T) {
	testrun.Long(t, "it kills processes")
	const running, queued, finished = 1000, 4000, 100
	dir := filepath.Join(t.TempDir(), "leader")
	c := startChild(t, dir, "")
	client := c.client("clientA", running, every...)
	for range running + queued {
		_, submit := submission("clientA", "calcA")
		if err := client.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		client.send(submit)
	}
	for acked := 0; acked < running+queued; {
		f := client.next()
		ids, err := wire.GUIDs(f.Payload)
		if err != nil || f.Type != wire.SubmitAck {
			t.Fatalf("the client was sent %s, %v", f.Type, err)
		}
		acked += len(ids)
	}
	id := wire.NewGUID()
	worker := c.workerWith(id, running, nil)
	worker.send(credit(running))
	held := map[wire.GUID]wire.Frame{}
	for len(held) < running {
		f := worker.next()
		if f.Type != wire.AssignJob {
			t.Fatalf("the worker was sent %s", f.Type)
		}
		held[f.MsgID] = f
		worker.send(wire.Frame{Type: wire.Accept, MsgID: f.CorrID, CorrID: f.MsgID})
	}
	c.kill()

	began := time.Now()
	c = c.again(dir)
	t.Logf("back after %s", time.Since(began))
	var still []wire.Running
	var ended []wire.Frame // while there was no leader
	for _, f := range held {
		if len(ended) < finished {
			ended = append(ended, f)
		} else {
			still = append(still, wire.Running{JobID: f.MsgID, AttemptID: f.CorrID})
		}
	}
	worker = c.workerWith(id, running, still)
	for _, f := range ended {
		worker.send(ok(f))
	}
	worker.send(credit(finished))
	results := map[wire.GUID]int{}
	var reading sync.WaitGroup
	client = c.client("clientA", running, every...)
	reading.Go(func() {
		for len(results) < running+queued {
			f, err := client.Receive()
			if err != nil {
				t.Errorf("after %d results: %v", len(results), err)
				return
			}
			if f.Type == wire.Result {
				results[f.MsgID]++
				_ = client.Send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, f.MsgID)})
			}
		}
	})
	reading.Go(func() {
		for _, r := range still {
			if worker.Send(ok(held[r.JobID]), credit(1)) != nil {
				return
			}
		}
	})
	reading.Go(func() {
		for new := 0; new < queued; {
			f, err := worker.Receive()
			if err != nil {
				t.Errorf("after %d jobs: %v", new, err)
				return
			}
			switch _, known := held[f.MsgID]; {
			case f.Type == wire.AssignJob && known:
				t.Errorf("job %s runs, or has ended, and was assigned again", f.MsgID)
				new++
			case f.Type == wire.AssignJob:
				new++
				_ = worker.Send(ok(f), credit(1))
			case f.Type == wire.Cancel:
				t.Errorf("job %s was taken from its worker: %s", f.CorrID, f.Payload)
			}
		}
	})
	reading.Wait()
	for id, n := range results {
		if n != 1 {
			t.Errorf("the result of job %s came %d times", id, n)
		}
	}
}

// A leader without a directory has forgotten everything: clients submit again, and results of what it has forgotten are kept for them.
func TestG46ResultOfUnknownJobReachesClient(t *testing.T) {
	r := start(t, &leader.Leader{})
	worker := r.worker(4) // of the original protocol
	id, submit := submission("clientA", "calcA")
	worker.send(ok(wire.Frame{MsgID: id, Payload: submit.Payload}))
	r.until("the result is kept", func() bool { return r.counts().Orphans == 1 })
	client := r.client("clientA", 4, every...)
	if f := client.next(); f.Type != wire.Result || f.MsgID != id {
		t.Fatalf("the client is sent %s %s", f.Type, f.MsgID)
	}
	client.send(submit) // it does not know what the leader knows
	answers := map[wire.Type]bool{client.next().Type: true, client.next().Type: true}
	if !answers[wire.SubmitAck] || !answers[wire.Result] {
		t.Errorf("the submission is answered with %v", answers)
	}
	if c := r.counts(); c.Submitted != 0 {
		t.Error("the job was queued again")
	}
}

// TestG73LargeBodiesAreOnDisk restarts a leader with requests and results that are kept in files.
func TestG73LargeBodiesAreOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leader")
	r := start(t, &leader.Leader{Dir: dir})
	client := r.client("clientA", 4, every...)
	id, submit := submission("clientA", "calcA", strings.Repeat("x", 100_000))
	other, small := submission("clientA", "calcA", strings.Repeat("y", 50_000))
	client.send(submit, small)
	for acked := 0; acked < 2; {
		ids, _ := wire.GUIDs(client.next().Payload)
		acked += len(ids)
	}
	if n := files(t, dir); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
	worker := r.worker(1, every...)
	f := worker.next()
	if f.MsgID != id || string(f.Payload) != string(submit.Payload) {
		t.Fatalf("the worker was sent %s with %d bytes", f.MsgID, len(f.Payload))
	}
	result, err := wire.MarshalResult(&wire.JobResult{JobID: id, ClientID: "clientA", ExecName: "calcA", Status: wire.OK, Stdout: strings.Repeat("z", 200_000)})
	if err != nil {
		t.Fatal(err)
	}
	client.Abort(net.ErrClosed)
	worker.send(wire.Frame{Type: wire.AckJob, MsgID: f.CorrID, CorrID: id, Payload: result})
	for f := worker.next(); f.Type != wire.ResultAck; f = worker.next() {
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if n := files(t, dir); n != 2 { // the result, and the other request
		t.Errorf("%d files, want 2", n)
	}
	r = start(t, &leader.Leader{Dir: dir})
	client = r.client("clientA", 4, every...)
	if f := client.next(); f.MsgID != id || string(f.Payload) != string(result) {
		t.Fatalf("after a restart the client is sent %s with %d bytes", f.MsgID, len(f.Payload))
	}
	worker = r.worker(1, every...)
	if f := worker.next(); f.MsgID != other || string(f.Payload) != string(small.Payload) {
		t.Errorf("after a restart the worker is sent %s with %d bytes", f.MsgID, len(f.Payload))
	}
}

// files returns how many bodies are stored.
func files(t *testing.T, dir string) int {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "bodies", "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
