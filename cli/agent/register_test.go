package agent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/batchfleet/batchfleet/cli/program"
	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
)

func TestZ36WhatTheGatewayRefusesIsForItsCallerToMend(t *testing.T) {
	tests := []struct {
		name string
		err  *gateway.Error
		want int
	}{
		{"an enroll token that was used", &gateway.Error{Status: 401, Code: wire.InvalidEnrollToken}, program.Usage},
		{"a token that has expired", &gateway.Error{Status: 401, Code: wire.TokenExpired}, program.Usage},
		{"a token that was revoked", &gateway.Error{Status: 403, Code: wire.TokenRevoked}, program.Usage},
		{"a connection without TLS", &gateway.Error{Status: 403, Code: wire.InsecureTransport}, program.Usage},
		{"a name that no worker may have", &gateway.Error{Status: 400, Code: wire.InvalidPayload}, program.Usage},
		{"a proxy's page", &gateway.Error{Status: 403, Message: "<html>"}, program.Unavailable},
		{"Redis is away", &gateway.Error{Status: 503, Code: wire.Unavailable}, program.Unavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := program.Coded(t.Context(), refusal(fmt.Errorf("register with https://gateway: %w", tt.err)))
			if coded, ok := errors.AsType[program.ExitError](err); !ok || coded.Code != tt.want {
				t.Errorf("exit code %d of %v, want %d", coded.Code, err, tt.want)
			}
		})
	}
}
