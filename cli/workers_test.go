package cli

import (
	"testing"

	"github.com/batchfleet/batchfleet/gateway/wire"
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
