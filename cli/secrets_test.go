package cli

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/batchfleet/batchfleet/gateway/wire"
)

// TestJ27ServersShowNoSecretsInLogsAndReadiness has one in the name of a worker, one
// in a label and one in what Redis answers.
func TestJ27ServersShowNoSecretsInLogsAndReadiness(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	rds := miniredis.RunT(t)
	metrics := freeAddr(t)
	p, url := g.startOpenGateway([]string{"REDIS_HOST=" + rds.Host(), "REDIS_PORT=" + rds.Port(), "REAP_INTERVAL=1s"},
		"--admin-token-file", filepath.Join(g.dir, "admin.token"), "--metrics-addr", metrics)
	var enroll wire.EnrollResponse
	g.call(http.MethodPost, url+wire.PathEnrollTokens, testAdmin, map[string]any{"label": "of bft_0123456789CANARY"}, &enroll)
	var worker wire.RegisterResponse
	g.call(http.MethodPost, url+wire.PathRegister, "", map[string]any{"token": enroll.Token, "name": "password=CANARY"}, &worker)
	rds.SetError("ERR upstream redis://u:CANARY@h refused zpw_0123456789CANARY")
	if text := g.untilReadyz(metrics, http.StatusServiceUnavailable); strings.Contains(text, "CANARY") || !strings.Contains(text, "ERR upstream redis://[redacted]@h refused [redacted]") {
		t.Errorf("/readyz says %q", text)
	}
	for path, status := range map[string]int{"/api/v1/zpe/jobs": 503, "/api/v1/fleet/jobs": 503, wire.PathServers: 500} {
		if r, err := g.request(http.MethodGet, url+path, testAdmin, nil); err != nil || r.status != status || strings.Contains(string(r.body), "CANARY") {
			t.Errorf("%s: %d %s, %v", path, r.status, r.body, err)
		}
	}
	until(g.t, time.Minute, "the reaper has met it, too", func() bool { return strings.Contains(p.log.String(), "cannot take back leases") })
	log := p.log.String()
	if strings.Contains(log, "CANARY") || strings.Contains(log, enroll.Token) {
		t.Errorf("the log shows a secret:\n%s", log)
	}
	for _, want := range []string{"enroll token made", `"label":"of [redacted]"`, `"worker":"` + worker.WorkerID + `"`, `"name":"password=[redacted]"`, "request failed", "refused [redacted]"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
}
