package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/internal/testlog"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// childEnv makes the test binary do something else than test.
const childEnv = "GATEWAY_TEST_CHILD"

func child() {
	switch os.Getenv(childEnv) {
	case "proxy":
		proxyChild(os.Args[1])
	case "agent":
		agentChild(os.Args[1], os.Args[2])
	}
}

// runChild runs the test binary as a child and returns what it prints.
func runChild(t *testing.T, what string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), env...), childEnv+"="+what)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("child %s: %v\n%s", what, err, out)
	}
	return string(out)
}

// serveHandler returns the address of a server on loopback.
func serveHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// agentChild is a whole worker on a real socket, until it is killed. Jobs with
// such a payload never end.
func agentChild(url, dir string) {
	store, err := storage.NewLocal(filepath.Join(dir, "store"))
	if err != nil {
		panic(err)
	}
	r := &rig{dir: filepath.Join(dir, "state"), token: filepath.Join(dir, "token"), store: store, log: &testlog.Buffer{}, slots: 2}
	r.handler = func(ctx context.Context, job jobs.Job, report func(jobs.Progress)) (jobs.Result, error) {
		if job.ID == "endless" {
			return untilStopped(ctx, job, report)
		}
		return r.put(ctx, job)
	}
	tokens, err := gateway.OpenTokenFile(r.token)
	if err != nil {
		panic(err)
	}
	client, err := gateway.NewClient(gateway.ClientConfig{URL: url, Tokens: tokens})
	if err != nil {
		panic(err)
	}
	a := r.agent(client)
	if err := a.Open(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go a.Run(context.Background())
	_ = r.worker(a).Run(context.Background())
}

// until waits for something the control plane sees.
func (p *plane) until(t *testing.T, what string, f func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		p.mu.Lock()
		done, changed := f(), p.changed
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("never happened: %s\nthe control plane saw %q", what, p.said())
		}
	}
}

func TestZ79KilledWorkerDeliversItsResultOnceWhenItIsBack(t *testing.T) {
	dir := t.TempDir()
	p := newPlane()
	p.waits = true
	posted := 0
	p.fault = func(route string, _ int) string { // p.mu is not held
		if route != "result" {
			return ""
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		posted++
		p.note("refused a result")
		return "503"
	}
	url := serveHandler(t, p)
	now := time.Now().UTC()
	if err := gateway.SaveToken(filepath.Join(dir, "token"), gateway.Token{WorkerID: "w-1", Token: theToken, IssuedAt: now, ExpiresAt: now.Add(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	start := func() (kill func() string) {
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), os.Args[0], url, dir)
		cmd.Env = append(os.Environ(), childEnv+"=agent")
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		kill = func() string {
			once.Do(func() {
				_ = cmd.Process.Signal(syscall.SIGKILL)
				_ = cmd.Wait() // it was killed
			})
			return out.String()
		}
		t.Cleanup(func() { kill() })
		return kill
	}
	kill := start()
	p.submit("endless", "j1")
	p.until(t, "both jobs under way, a result refused", func() bool { return posted > 0 && p.jobs["endless"].status == "started" })

	second := exec.CommandContext(t.Context(), os.Args[0], url, dir)
	second.Env = append(os.Environ(), childEnv+"=agent")
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another worker of this machine uses it") {
		t.Errorf("a second worker in the same directory: %v\n%s", err, out)
	}

	kill()
	p.mu.Lock()
	p.fault = nil
	retries := p.jobs["endless"].retries
	p.mu.Unlock()
	kill = start()
	p.until(t, "the result and the lost job", func() bool {
		return p.jobs["j1"].status == "finished" && p.jobs["endless"].code == wire.FailWorkerRestart
	})
	kill()
	if len(p.reports) != 1 || p.reports[0].LeaseID != p.jobs["j1"].winner {
		t.Errorf("results %+v", p.reports)
	}
	if n := p.jobs["j1"].retries; n != 0 {
		t.Errorf("the job with the result was run again %d times", n)
	}
	if n := p.jobs["endless"].retries - retries; n != 1 {
		t.Errorf("the lost job was counted %d times", n)
	}
}
