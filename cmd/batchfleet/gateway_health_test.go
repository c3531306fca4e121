package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/status/redistest"
)

func TestZ19ReadyzTellsStrangersNothingOfRedis(t *testing.T) {
	g := newTestGateway(t)
	addr, metrics := freeAddr(t), freeAddr(t)
	g.startProcess(g.environment("REDIS_HOST="+g.redis.Host, fmt.Sprintf("REDIS_PORT=%d", g.redis.Port)),
		"gateway", "--addr", addr, "--metrics-addr", metrics, "--admin-token-file", filepath.Join(g.dir, "admin.token"))
	g.untilReadyz(addr, http.StatusOK)
	g.redis.Kill()
	if text := g.untilReadyz(addr, http.StatusServiceUnavailable); text != "cannot work with Redis; /readyz of --metrics-addr says why\n" {
		t.Errorf("a stranger is told %q", text)
	}
	if text := g.untilReadyz(metrics, http.StatusServiceUnavailable); !strings.Contains(text, g.redis.Addr()) {
		t.Errorf("an operator is told %q, without the address of Redis", text)
	}
}

func TestZ22ReadyzSaysThatRedisIsACluster(t *testing.T) {
	g := newTestGateway(t)
	cluster := redistest.New(t, "--cluster-enabled", "yes")
	addr := freeAddr(t)
	g.startProcess(g.environment("REDIS_HOST="+cluster.Host, fmt.Sprintf("REDIS_PORT=%d", cluster.Port)), "gateway", "--addr", addr)
	g.until(time.Minute, "/readyz says what is wrong", func() bool {
		return strings.Contains(g.untilReadyz(addr, http.StatusServiceUnavailable), "needs one server")
	})
}

// untilReadyz waits until /readyz of addr answers with status, and returns what
// it says.
func (g *testGateway) untilReadyz(addr string, status int) (text string) {
	g.t.Helper()
	g.until(time.Minute, fmt.Sprint("/readyz says ", status), func() bool {
		r, err := g.request(http.MethodGet, "http://"+addr+"/readyz", "", nil)
		text = string(r.body)
		return err == nil && r.status == status
	})
	return text
}
