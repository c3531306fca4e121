package cli

import (
	"context"
	"fmt"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/kinds"
)

// files returns where the inputs and artifacts of kinds are; nil if there are none, nor a file that may
// have some later.
func (e *GatewayEnv) files(ctx context.Context, set *kinds.Set) (*control.Files, error) {
	if e.KindsFile == "" && len(set.Kinds) == 0 {
		return nil, nil
	}
	store, err := e.openStorage(ctx)
	if err != nil {
		return nil, err
	}
	spool, err := control.OpenSpool(e.SpoolDir)
	if err != nil {
		return nil, fmt.Errorf("SPOOL_DIR: %w", err)
	}
	return &control.Files{Store: store, Spool: spool, MaxArtifact: e.MaxArtifact, MaxInput: e.MaxInput}, nil
}
