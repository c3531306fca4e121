package cli

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Connections that somebody opens and leaves idle take no files from health checks,
// Redis and those who call.
func TestGatewayWithFewFilesStaysWell(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr, metrics := freeAddr(t), freeAddr(t)
	cmd := batchfleet(t, g.environment(g.atRedis()...))
	cmd.Args = []string{
		"sh", "-c", `ulimit -n 400 && exec "$0" "$@"`, cmd.Path,
		"gateway", "--addr", addr, "--metrics-addr", metrics, "--admin-token-file", filepath.Join(g.dir, "admin.token"),
	}
	cmd.Path = "/bin/sh"
	p := launch(t, cmd)
	g.untilReadyz(metrics, http.StatusOK)
	const warning = "raise the limit of open files"
	if s := p.log.String(); strings.Contains(s, warning) {
		t.Errorf("it warns before anybody waits:\n%s", s)
	}
	idle := make([]net.Conn, 0, 450)
	for range cap(idle) {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	for range 10 {
		if r, err := g.request(http.MethodGet, "http://"+metrics+"/readyz", "", nil); err != nil || r.status != http.StatusOK {
			t.Fatalf("/readyz beside idle connections: %d, %v", r.status, err)
		}
	}
	for _, c := range idle {
		c.Close()
	}
	g.untilReadyz(addr, http.StatusOK)
	if s := p.log.String(); strings.Contains(s, "too many open files") || !strings.Contains(s, warning) {
		t.Errorf("log:\n%s", s)
	}
}
