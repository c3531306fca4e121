package cli

import (
	"github.com/batchfleet/batchfleet/gateway/control"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
)

// kinds returns the kinds of the gateway's kinds file; none without one.
func (e *GatewayEnv) kinds() (map[jobs.Kind]control.Kind, error) {
	if e.KindsFile == "" {
		return nil, nil
	}
	set, err := kinds.Read(e.KindsFile)
	if err != nil {
		return nil, err
	}
	return control.KindsOf(set), nil
}
