package cli

import (
	"context"
	"fmt"

	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// kinds returns the kinds of the gateway's kinds file, and where their inputs and artifacts
// are; nothing without one.
func (e *GatewayEnv) kinds(ctx context.Context) (map[jobs.Kind]control.Kind, *control.Files, error) {
	if e.KindsFile == "" {
		return nil, nil, nil
	}
	set, err := kinds.Read(e.KindsFile)
	if err != nil {
		return nil, nil, err
	}
	store, err := e.openStorage(ctx)
	if err != nil {
		return nil, nil, err
	}
	spool, err := control.OpenSpool(e.SpoolDir)
	if err != nil {
		return nil, nil, fmt.Errorf("SPOOL_DIR: %w", err)
	}
	return control.KindsOf(set), &control.Files{Store: store, Spool: spool, MaxArtifact: e.MaxArtifact, MaxInput: e.MaxInput}, nil
}
