package cli

import (
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/status"
)

// TestF21GatewaysWorkerIsCalledOnlyWhatIsKnownOfIt: a gateway does not know whether one without a lease lives.
func TestF21GatewaysWorkerIsCalledOnlyWhatIsKnownOfIt(t *testing.T) {
	for _, tt := range []struct {
		name string
		info wire.ServerInfo
		want string
	}{
		{"one that holds a lease is working", wire.ServerInfo{Tokens: 1, Leases: 2}, "working"},
		{"one that holds none is registered", wire.ServerInfo{Tokens: 1}, "registered"},
		{"one without a good token is revoked", wire.ServerInfo{Leases: 1}, "revoked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := gatewayWorker(tt.info); got.State != tt.want || got.Jobs != tt.info.Leases {
				t.Errorf("it is %s with %d jobs, want %s with %d", got.State, got.Jobs, tt.want, tt.info.Leases)
			}
		})
	}
}

// TestF63GatewayWithoutAnAdminTokenRefusesAtOnce, and shows what it may.
func TestF63GatewayWithoutAnAdminTokenRefusesAtOnce(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t)
	addr := freeAddr(t)
	g.startProcess(g.environment(g.atRedis()...), "gateway", "--addr", addr)
	g.untilReadyz(addr, 200)
	member := status.New(g.rdb).Member(status.Worker{Slots: 1})
	if err := member.Pulse(t.Context(), 0, false, ""); err != nil {
		t.Fatal(err)
	}
	api := []string{"BATCHFLEET_API=http://" + addr}
	code, out, said := g.runCommand(api, "workers")
	if code != 0 || !strings.Contains(out, "idle") || said != "batchfleet: the gateway's own workers are not shown: that needs its admin token\n" {
		t.Errorf("workers: exit code %d, want 0, the fleet's worker and a note:\n%s%s", code, out, said)
	}
	for _, args := range [][]string{{"workers", "enroll"}, {"workers", "revoke", "w"}, {"dlq", "list"}, {"dlq", "redrive", "--scope", "zpe"}} {
		code, _, said := g.runCommand(api, args...)
		if code != 2 || !strings.Contains(said, "ADMIN_DISABLED: ") || !strings.Contains(said, "without --admin-token-file") || strings.Contains(said, "retrying") {
			t.Errorf("%s: exit code %d, want 2 at once and why:\n%s", strings.Join(args, " "), code, said)
		}
	}
}
