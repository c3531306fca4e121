package client_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/exec"
	"github.com/batchfleet/batchfleet/grid/leader"
	"github.com/batchfleet/batchfleet/grid/member"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

var quiet = slog.New(slog.DiscardHandler)

// line is the network between a peer and its leader. It cuts connections, and counts what goes over them.
type line struct {
	t        *testing.T
	registry *prometheus.Registry // of the leader
	cuts     []cut                // of the first connections, the others last

	mu            sync.Mutex
	dialed        int
	read, written int64
}

// cut is after how many bytes a connection is lost; 0 for never.
type cut struct{ read, written int64 }

// dial connects. The connection before it is over at the leader by then, so that a transfer goes on.
func (n *line) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	number := n.dialed
	n.dialed++
	n.mu.Unlock()
	if number > 0 {
		n.awaitEnds()
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &wireConn{Conn: conn, line: n}
	if number < len(n.cuts) {
		w.cut = n.cuts[number]
	}
	return w, nil
}

// awaitEnds waits until the leader has no more than the connection of the other peer.
func (n *line) awaitEnds() {
	for connections(n.t, n.registry) > 1 {
		if n.t.Context().Err() != nil {
			return
		}
	}
}

func connections(t *testing.T, registry *prometheus.Registry) (n float64) {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, family := range all {
		if family.GetName() != "batchfleet_grid_peers" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == "connection" {
				n = m.GetGauge().GetValue()
			}
		}
	}
	return n
}

// wireConn is a connection of a line.
type wireConn struct {
	net.Conn
	line *line
	cut

	read, written int64 // by the reader, and by the writer
}

func (w *wireConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.read += int64(n)
	w.line.mu.Lock()
	w.line.read += int64(n)
	w.line.mu.Unlock()
	if w.cut.read > 0 && w.read > w.cut.read {
		_ = w.Close()
	}
	return n, err
}

func (w *wireConn) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.written += int64(n)
	w.line.mu.Lock()
	w.line.written += int64(n)
	w.line.mu.Unlock()
	if w.cut.written > 0 && w.written > w.cut.written {
		_ = w.Close()
	}
	return n, err
}

// fleet is a leader, a worker and a client in one process.
type fleet struct {
	t      *testing.T
	leader *leader.Leader
	addr   string
	exes   string
	lines  map[string]*line // of the worker and the client
	client *client.Multi
}

// newFleet runs one until the test ends. Without keep its leader has no blobs.
func newFleet(t *testing.T, keep bool, lines map[string]*line) *fleet {
	t.Helper()
	registry := prometheus.NewRegistry()
	f := &fleet{t: t, leader: &leader.Leader{Log: quiet, Metrics: leader.NewMetrics(registry)}, exes: t.TempDir(), lines: lines}
	for _, l := range lines {
		l.t, l.registry = t, registry
	}
	if keep {
		store, err := blob.OpenStore(t.Context(), filepath.Join(t.TempDir(), "blobs"), blob.Options{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		f.leader.Blobs = store
	}
	f.startLeader()
	f.startWorker()
	f.startClient()
	return f
}

// background runs f until the test ends.
func (f *fleet) background(run func(ctx context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	f.t.Cleanup(func() { stop(); running.Wait() })
}

func (f *fleet) startLeader() {
	f.t.Helper()
	if err := f.leader.Open(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(f.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	f.addr = listener.Addr().String()
	f.background(func(ctx context.Context) {
		if err := f.leader.Run(ctx); err != nil {
			f.t.Error(err)
		}
	})
	f.background(func(ctx context.Context) {
		if err := f.leader.Serve(ctx, listener); err != nil {
			f.t.Error(err)
		}
	})
}

func (f *fleet) startWorker() {
	f.t.Helper()
	m := &member.Member{Leaders: []string{f.addr}, Dial: f.lines["worker"].dial, MaxParallel: 2, Dir: f.t.TempDir(), Log: quiet}
	if err := m.Open(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			f.t.Error(err)
		}
	})
	runner := &exec.Runner{ExeDir: f.exes, JobsDir: filepath.Join(f.t.TempDir(), "jobs"), Path: "/usr/bin:/bin", Log: quiet, Fetch: m.Fetch, Store: m.Store}
	if err := runner.Open(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := runner.Close(); err != nil {
			f.t.Error(err)
		}
	})
	w := &worker.Worker{
		Source: m, Status: m, Log: quiet, Pools: []worker.Pool{{Slots: 2}}, Drain: 1,
		Handlers: map[jobs.Kind]worker.Handler{member.Kind: m.Handler(&exec.Handler{Runner: runner})},
	}
	f.background(m.Run)
	f.background(func(ctx context.Context) {
		if err := w.Run(ctx); err != nil {
			f.t.Error(err)
		}
	})
}

func (f *fleet) startClient() {
	f.t.Helper()
	var err error
	f.client, err = client.New(client.Config{ClientID: "clientA", Leaders: []string{f.addr}, Dial: f.lines["client"].dial, Log: quiet})
	if err != nil {
		f.t.Fatal(err)
	}
	f.background(func(ctx context.Context) {
		if err := f.client.Run(ctx); err != nil {
			f.t.Error(err)
		}
	})
}

// program makes a program of a shell script.
func (f *fleet) program(exec, script string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.exes, exec+".exe"), []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // it is run
		f.t.Fatal(err)
	}
}

func (f *fleet) run(request wire.JobRequest) wire.JobResult {
	f.t.Helper()
	j, err := f.client.Submit(f.t.Context(), request)
	if err != nil {
		f.t.Fatal(err)
	}
	result, err := j.Wait(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // it never fails
	return data
}

func TestG70LargeFilesSurviveLostConnections(t *testing.T) {
	const mega = 1 << 20
	f := newFleet(t, true, map[string]*line{
		"client": {cuts: []cut{{written: 5 * mega}, {read: 7 * mega}}},
		"worker": {cuts: []cut{{read: 5 * mega}, {written: 7 * mega}}},
	})
	f.program("double", "cat in.bin in.bin | head -c 20971520 > out.png; echo done") // .png is not compressed
	input := noise(12 * mega)
	result := f.run(wire.JobRequest{ExecName: "double", Files: []wire.InputFile{{Name: "in.bin", Content: input}}})
	if result.Status != wire.OK || result.Stdout != "done\n" || len(result.Artifacts) != 1 || result.OutputArchive != nil {
		t.Fatalf("the result is %s %s %q with %+v", result.Status, result.Reason, result.Message, result.Artifacts)
	}
	var archive bytes.Buffer
	if err := f.client.Fetch(t.Context(), result.Artifacts[0], &archive); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil || len(z.File) != 1 {
		t.Fatalf("an archive of %d files, %v", len(z.File), err)
	}
	file, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, append(bytes.Clone(input), input[:8*mega]...)) {
		t.Errorf("the program has left %d bytes of something else, %v", len(got), err)
	}
	// What was on its way is sent again, and no more.
	const lost = 2 * mega
	for name, l := range f.lines {
		l.mu.Lock()
		there, back := l.written, l.read
		if name == "worker" {
			there, back = back, there
		}
		if l.dialed < 3 {
			t.Errorf("the connection of the %s was lost %d times", name, l.dialed-1)
		}
		if there > 12*mega+lost || back > 20*mega+lost {
			t.Errorf("%d bytes went there and %d back over the connections of the %s: transfers have begun once more", there, back, name)
		}
		l.mu.Unlock()
	}
}

func TestG70JobFailsIfLeaderHasNoBlobs(t *testing.T) {
	f := newFleet(t, false, map[string]*line{"client": {}, "worker": {}})
	f.program("leave", "head -c 5000000 /dev/urandom > out.png")
	result := f.run(wire.JobRequest{ExecName: "leave"})
	if result.Status != wire.Failed || result.Reason != wire.ReasonError || !bytes.Contains([]byte(result.Message), []byte("too large for a frame")) {
		t.Errorf("the result is %s %s %q", result.Status, result.Reason, result.Message)
	}
	j, err := f.client.Submit(t.Context(), wire.JobRequest{ExecName: "leave", Files: []wire.InputFile{{Name: "in", Content: noise(5_000_000)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Wait(t.Context()); err == nil {
		t.Error("a job whose files fit into no frame is taken by a leader without blobs")
	}
}

func TestG18LeaderHasLinesOfRunningProgram(t *testing.T) {
	f := newFleet(t, false, map[string]*line{"client": {}, "worker": {}})
	end := filepath.Join(t.TempDir(), "end")
	f.program("talk", `echo first; echo second >&2; while [ ! -e "$1" ]; do sleep 0.05; done; echo last`)
	j, err := f.client.Submit(t.Context(), wire.JobRequest{ExecName: "talk", Args: []string{end}})
	if err != nil {
		t.Fatal(err)
	}
	log := func() (lines []string) {
		if err := f.leader.Do(t.Context(), func(c *schedule.Core) {
			all, _, _ := c.Log(j.ID)
			for _, l := range all {
				lines = append(lines, l.Text)
			}
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(lines) // those of different streams have no order
		return lines
	}
	for len(log()) < 2 {
		select {
		case <-j.Done():
			t.Fatal("the program has ended")
		default:
		}
	}
	if got, want := log(), []string{"first", "second"}; !slices.Equal(got, want) {
		t.Errorf("while it runs the log has %q, want %q", got, want)
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := log(), []string{"first", "last", "second"}; !slices.Equal(got, want) {
		t.Errorf("at its end the log has %q, want %q", got, want)
	}
}
