package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Unknown is the state of a job that no leader knows.
const Unknown = "unknown"

// errNotSupported means that all connected leaders are of the original protocol.
var errNotSupported = fmt.Errorf("no connected leader can do that: %w", errors.ErrUnsupported)

// Cancel cancels a job. A job that no leader has ends at once, with [ErrCanceled]. For other jobs a result comes, which says whether the
// job was canceled or had ended before. If an earlier process has submitted the job, all leaders are asked. The error wraps
// [errors.ErrUnsupported] if the leader cannot cancel jobs.
func (m *Multi) Cancel(ctx context.Context, id wire.GUID) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[id]
	switch {
	case j == nil:
		return m.cancelEverywhere(id)
	case j.from != nil: // its result is here
	case j.at == nil:
		j.end(nil, ErrCanceled)
	case j.at.ready && !j.at.features[wire.FeatureCancel]:
		return fmt.Errorf("cancel job %s: leader %s cannot cancel jobs: %w", id, j.at.address, errors.ErrUnsupported)
	default:
		j.canceled = true
		if j.at.ready { // otherwise when it is back
			j.at.sendCancel(id)
		}
	}
	return nil
}

func (m *Multi) cancelEverywhere(id wire.GUID) error {
	asked := m.able(wire.FeatureCancel)
	if len(asked) == 0 {
		return fmt.Errorf("cancel job %s: %w", id, errNotSupported)
	}
	for _, l := range asked {
		l.sendCancel(id)
	}
	return nil
}

// able returns the leaders that are connected and have the feature. m.mu is held.
func (m *Multi) able(feature string) []*leader {
	var all []*leader
	for _, l := range m.leaders {
		if l.ready && l.features[feature] {
			all = append(all, l)
		}
	}
	return all
}
