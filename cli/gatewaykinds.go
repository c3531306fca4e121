package cli

import (
	"context"
	"fmt"

	"github.com/batchfleet/batchfleet/cli/own"
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/jobs"
)

// kinds returns the kinds of the gateway's kinds file and those that the program was built with, and
// where their inputs and artifacts are; nothing if there are none.
func (e *GatewayEnv) kinds(ctx context.Context) (map[jobs.Kind]control.Kind, *control.Files, error) {
	set, err := (&own.Env{File: e.KindsFile}).Set()
	if err != nil || e.KindsFile == "" && len(set.Kinds) == 0 {
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
