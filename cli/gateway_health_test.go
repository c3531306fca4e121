package cli

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
	t.Parallel()
	g := newTestGateway(t)
	addr, metrics := freeAddr(t), freeAddr(t)
	g.startProcess(g.environment(g.atRedis()...),
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
	t.Parallel()
	g := newTestGateway(t)
	cluster := redistest.New(t, "--cluster-enabled", "yes")
	addr := freeAddr(t)
	g.startProcess(g.environment("REDIS_HOST="+cluster.Host, fmt.Sprintf("REDIS_PORT=%d", cluster.Port)), "gateway", "--addr", addr)
	until(g.t, time.Minute, "/readyz says what is wrong", func() bool {
		return strings.Contains(g.untilReadyz(addr, http.StatusServiceUnavailable), "needs one server")
	})
}

// untilReadyz waits until /readyz of addr answers with status, and returns what
// it says.
func (g *testGateway) untilReadyz(addr string, status int) (text string) {
	g.t.Helper()
	until(g.t, time.Minute, fmt.Sprint("/readyz says ", status), func() bool {
		r, err := g.request(http.MethodGet, "http://"+addr+"/readyz", "", nil)
		text = string(r.body)
		return err == nil && r.status == status
	})
	return text
}

func TestZ22ReadyzFollowsWhatIsChangedInRedisAtRunTime(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	g.startGateway(addr)
	redis := func(args ...any) {
		t.Helper()
		if err := g.rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	g.untilReadyz(addr, http.StatusOK)
	redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if text := g.untilReadyz(addr, http.StatusServiceUnavailable); !strings.Contains(text, "noeviction") {
		t.Errorf("of a Redis that evicts it says %q", text)
	}
	redis("CONFIG", "SET", "maxmemory-policy", "noeviction")
	g.untilReadyz(addr, http.StatusOK)
	redis("ACL", "SETUSER", "default", "-@scripting")
	if text := g.untilReadyz(addr, http.StatusServiceUnavailable); !strings.Contains(text, "ACL") {
		t.Errorf("of a Redis that refuses scripts it says %q", text)
	}
	r, err := g.request(http.MethodPost, "http://"+addr+"/calc/zpe/jobs", "", h2Payload)
	if err != nil || r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), "UNAVAILABLE") {
		t.Errorf("submit answered %d %s, %v; want 503", r.status, r.body, err)
	}
	redis("ACL", "SETUSER", "default", "+@scripting")
	g.untilReadyz(addr, http.StatusOK)
}
