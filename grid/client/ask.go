package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// Unknown is the state of a job that no leader knows.
const Unknown = "unknown"

// errNotSupported is for leaders of the original protocol.
var errNotSupported = fmt.Errorf("no leader that is connected can do that: %w", errors.ErrUnsupported)

// Cancel asks for the end of a job. One that is with no leader ends at once, with [ErrCanceled]; of others a result comes, which
// tells whether the job was canceled or has ended before. The job may be of an earlier process: then all leaders are asked. The
// error wraps [errors.ErrUnsupported] if the leader cannot do it.
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
		return fmt.Errorf("cancel job %s: leader %s cannot do that: %w", id, j.at.address, errors.ErrUnsupported)
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
