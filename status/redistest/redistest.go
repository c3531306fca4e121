// Package redistest starts a real redis-server for a test, on a free port of
// the loopback interface, and can stop, kill and freeze it.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a running redis-server. Its data is on disk after every write, so
// that it survives Kill and Start.
type Server struct {
	Host string
	Port int

	t    testing.TB
	dir  string
	more []string
	cmd  *exec.Cmd
}

// New starts a server that ends with the test, with more arguments if there are any. Where redis-server is not
// installed the test is skipped, but on CI it fails: there it must not be missing.
func New(tb testing.TB, more ...string) *Server {
	tb.Helper()
	needs(tb, "redis-server")
	s := &Server{Host: "127.0.0.1", Port: FreePort(tb), t: tb, dir: tb.TempDir(), more: more}
	s.Start()
	tb.Cleanup(func() {
		if s.cmd != nil {
			s.Resume()
			s.Kill()
		}
	})
	return s
}

// needs skips the test, or fails it on CI, where a program is not installed.
func needs(tb testing.TB, program string) {
	tb.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		tb.Fatalf("%s is not installed: CI must run every test", program)
	}
	tb.Skipf("%s is not installed (Debian: apt-get install %[1]s)", program)
}

// Addr returns host:port.
func (s *Server) Addr() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Client returns a client that is closed with the test. It waits long for an
// answer: what is written again because the first answer came late is written twice.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr(), DisableIdentity: true,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Start starts the server, with the data it had when it ended, and waits until
// it answers.
func (s *Server) Start() {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.dir, "redis.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	args := []string{"--bind", s.Host, "--port", strconv.Itoa(s.Port), "--dir", s.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "no"}
	s.cmd = exec.Command("redis-server", append(args, s.more...)...) //nolint:noctx // lives as long as the test
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	for deadline := time.Now().Add(time.Minute); ; {
		err := c.Ping(context.Background()).Err()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			s.t.Fatalf("redis-server does not answer: %v\n%s", err, text)
		}
		pause(10 * time.Millisecond)
	}
}

// Kill ends the server as a power cut would.
func (s *Server) Kill() {
	s.t.Helper()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Snapshot copies what is on disk now, for Rewind.
func (s *Server) Snapshot() (dir string) {
	s.t.Helper()
	dir = filepath.Join(s.t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(s.dir, "appendonlydir"))); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// Rewind kills the server and starts it with the data of a snapshot: what it wrote
// since is lost, as by a power cut before the data was on disk.
func (s *Server) Rewind(snapshot string) {
	s.t.Helper()
	s.Kill()
	dir := filepath.Join(s.dir, "appendonlydir")
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(snapshot))); err != nil {
		s.t.Fatal(err)
	}
	s.Start()
}

var asked atomic.Int64 // ports

// FreePort returns a port of loopback that no process listens on, for a process that
// is to be started, and started again, on a port known beforehand. The kernel
// gives it to no process that asks for any port.
func FreePort(tb testing.TB) int {
	tb.Helper()
	// The kernel's own begin at 32768, also for the second port that a Redis of a
	// cluster takes, 10000 higher.
	const first, count = 12_000, 10_000
	for range 100 {
		// Other test processes begin elsewhere, and none asks twice for the same.
		port := first + (os.Getpid()*101+int(asked.Add(1)))%count
		if l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	tb.Fatal("no port is free")
	return 0
}

// pause waits for another process, for which there is no other clock.
func pause(d time.Duration) { <-time.After(d) }
