package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinels is a primary with replicas, and Sentinels that make one of them the
// primary when it dies.
type Sentinels struct {
	URL     string // for REDIS_URL
	Servers []*Server
	addrs   []string
	t       testing.TB
}

// NewSentinels starts a primary, two replicas and three Sentinels that take a server
// for dead after a second and a half. Where redis-sentinel is not installed the test is
// skipped, but on CI it fails.
func NewSentinels(tb testing.TB) *Sentinels {
	tb.Helper()
	needs(tb, "redis-sentinel")
	primary := New(tb)
	s := &Sentinels{Servers: []*Server{primary}, t: tb}
	for range 2 {
		s.Servers = append(s.Servers, New(tb, "--replicaof", fmt.Sprintf("127.0.0.1 %d", primary.Port), "--repl-diskless-sync-delay", "0"))
	}
	c := primary.Client()
	s.until("both replicas are there", func() bool {
		return c.Set(context.Background(), "probe", "1", 0).Err() == nil && c.Do(context.Background(), "WAIT", 2, 100).Val() == int64(2)
	})
	for range 3 {
		s.sentinel(primary.Port)
	}
	s.URL = "redis+sentinel://" + strings.Join(s.addrs, ",") + "/main"
	s.until("the Sentinels know each other and the replicas", func() bool {
		for _, addr := range s.addrs {
			m, err := primaryOf(addr)
			if err != nil || m["num-other-sentinels"] != "2" || m["num-slaves"] != "2" {
				return false
			}
		}
		return true
	})
	return s
}

func (s *Sentinels) sentinel(primary int) {
	s.t.Helper()
	port, dir := FreePort(s.t), s.t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nsentinel monitor main 127.0.0.1 %d 2\n"+
		"sentinel down-after-milliseconds main 1500\nsentinel failover-timeout main 5000\nsentinel parallel-syncs main 2\n", port, dir, primary)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("redis-sentinel", conf, "--logfile", filepath.Join(dir, "log")) //nolint:noctx // lives as long as the test
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s.addrs = append(s.addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// primaryOf returns what a Sentinel knows of the primary.
func primaryOf(addr string) (map[string]string, error) {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Master(ctx, "main").Result()
}

// Primary returns the server that most Sentinels name, nil if they do not agree.
func (s *Sentinels) Primary() *Server {
	named := map[string]int{}
	for _, addr := range s.addrs {
		if m, err := primaryOf(addr); err == nil {
			named[m["port"]]++
		}
	}
	for _, srv := range s.Servers {
		if named[strconv.Itoa(srv.Port)] >= 2 {
			return srv
		}
	}
	return nil
}

// Failover kills the primary, waits until another takes its place and writes, and
// starts the dead one again, which becomes a replica.
func (s *Sentinels) Failover() {
	s.t.Helper()
	var old *Server
	s.until("the Sentinels agree on a primary", func() bool { old = s.Primary(); return old != nil })
	old.Kill()
	s.until("another is the primary", func() bool {
		now := s.Primary()
		return now != nil && now != old && now.Client().Set(context.Background(), "probe", "1", 0).Err() == nil
	})
	old.Start()
	s.until("the old primary is a replica with all data, and so is the other", func() bool {
		now := s.Primary()
		return now != nil && now.Client().Do(context.Background(), "WAIT", 2, 100).Val() == int64(2) && linked(old)
	})
}

// linked reports whether a server is a replica that is connected to its primary.
func linked(srv *Server) bool {
	role, _ := srv.Client().Do(context.Background(), "ROLE").Slice()
	return len(role) > 3 && role[0] == "slave" && role[3] == "connected"
}

func (s *Sentinels) until(what string, cond func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); pause(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within 2 minutes: %s", what)
		}
	}
}
