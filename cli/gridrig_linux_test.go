package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/grid/client"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/internal/testrun"
)

// faultGrid is a grid of real processes.
type faultGrid struct {
	t   *testing.T
	dir string // its programs are in exe, and each process has a directory
}

func newFaultGrid(t *testing.T) *faultGrid {
	t.Helper()
	testrun.Long(t, "it starts processes")
	g := &faultGrid{t, testrun.MemoryDir(t)}
	if err := os.Mkdir(g.path("exe"), 0o700); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *faultGrid) path(names ...string) string {
	return filepath.Join(append([]string{g.dir}, names...)...)
}

// program makes a program of a shell script. $DIR is the directory of the grid.
func (g *faultGrid) program(exec, script string) {
	g.t.Helper()
	if err := os.WriteFile(g.path("exe", exec+".exe"), []byte("#!/bin/sh\nDIR='"+g.dir+"'\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
		g.t.Fatal(err)
	}
}

// written returns the lines of a file, none if it is not there.
func (g *faultGrid) written(name string) []string {
	text, _ := os.ReadFile(g.path(name))
	return strings.Fields(string(text))
}

// write makes a file, which programs may wait for.
func (g *faultGrid) write(name string) {
	g.t.Helper()
	if err := os.WriteFile(g.path(name), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// leaderCommand is a leader at an address that keeps its jobs in a directory with that name, or nothing if the name is empty.
func (g *faultGrid) leaderCommand(addr, name string) *exec.Cmd {
	g.t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		g.t.Fatal(err)
	}
	args := []string{"grid", "leader", port, "--http", ""}
	if name != "" {
		args = append(args, "--dir", g.path(name))
	}
	return batchfleet(g.t, nil, args...)
}

// leader starts a leader, and waits until it listens.
func (g *faultGrid) leader(addr, name string) *process {
	g.t.Helper()
	p := launch(g.t, g.leaderCommand(addr, name))
	p.untilLogged("leader listens on")
	return p
}

// workerCommand is a worker with directories of its own.
func (g *faultGrid) workerCommand(name string, slots int, leaders []string, flags ...string) *exec.Cmd {
	g.t.Helper()
	args := []string{
		"grid", "worker", strings.Join(leaders, ","), "job.assign.*", "--exe-dir", g.path("exe"), "--jobs-dir", g.path(name, "jobs"),
		"--cache-dir", g.path("cache"), "--dir", g.path(name, "results"),
	}
	env := []string{fmt.Sprint("WORKER_MAX_PAR=", slots), "WORKER_CPU_CAP=0.95", "GRID_TEST_WORKER=" + name}
	return batchfleet(g.t, env, append(args, flags...)...)
}

func (g *faultGrid) worker(name string, slots int, leaders []string, flags ...string) *process {
	g.t.Helper()
	if err := os.MkdirAll(g.path(name), 0o700); err != nil {
		g.t.Fatal(err)
	}
	return launch(g.t, g.workerCommand(name, slots, leaders, flags...))
}

// partCommand is a client or a worker of the test.
func (g *faultGrid) partCommand(p *gridPart) *exec.Cmd {
	g.t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		g.t.Fatal(err)
	}
	return batchfleet(g.t, []string{asGridPart + "=" + string(text)})
}

// testClient is a client in the process of the test, which knows how often it was told of each result.
type testClient struct {
	*client.Multi
	t *testing.T

	mu   sync.Mutex
	told map[wire.GUID]int
}

func (g *faultGrid) client(cfg client.Config) *testClient {
	g.t.Helper()
	c := &testClient{t: g.t, told: map[wire.GUID]int{}}
	cfg.ClientID, cfg.Log = "clientA", slog.New(slog.NewTextHandler(g.t.Output(), nil))
	cfg.OnResult = func(r client.Result) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told[r.JobID]++
		return nil
	}
	var err error
	if c.Multi, err = client.New(cfg); err != nil {
		g.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // the results tell
	g.t.Cleanup(func() { stop(); running.Wait() })
	return c
}

func (c *testClient) submit(exec string, args ...string) *client.Job {
	c.t.Helper()
	return c.submitRequest(wire.JobRequest{ExecName: exec, Args: args})
}

func (c *testClient) submitRequest(r wire.JobRequest) *client.Job {
	c.t.Helper()
	j, err := c.Submit(c.t.Context(), r)
	if err != nil {
		c.t.Fatal(err)
	}
	return j
}

// result waits for the result of a job, and checks that it was told once.
func (c *testClient) result(j *client.Job) wire.JobResult {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Minute)
	defer cancel()
	r, err := j.Wait(ctx)
	if err != nil {
		c.t.Fatalf("job %s: %v", j.ID, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.told[j.ID]; n != 1 {
		c.t.Errorf("the result of job %s was told %d times", j.ID, n)
	}
	return r
}
