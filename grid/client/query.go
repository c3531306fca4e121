package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// QueryTimeout is how long [Multi.Query] waits for an answer.
const QueryTimeout = 30 * time.Second

var errNoAnswer = errors.New("no leader has answered in time")

// query is a query that some leaders were asked. It is guarded by m.mu.
type query struct {
	asked  []*leader // that have not answered
	answer wire.StatusInfo
	err    error
	done   chan struct{}
}

// Query asks for the state of a job: the leader that has it, or all leaders if it is not an unfinished job of this client. The state is
// [Unknown] if no leader knows the job. The error is the cause of ctx, wraps [link.ErrSilent] if the connection to the leader was lost, or
// [errors.ErrUnsupported] if no connected leader answers queries.
func (m *Multi) Query(ctx context.Context, id wire.GUID) (wire.StatusInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, QueryTimeout, errNoAnswer)
	defer cancel()
	q, err := m.ask(id)
	if err != nil {
		return wire.StatusInfo{}, fmt.Errorf("query job %s: %w", id, err)
	}
	select {
	case <-q.done:
		err = q.err
	case <-ctx.Done():
		m.mu.Lock()
		m.drop(id, q)
		m.mu.Unlock()
		err = context.Cause(ctx)
	}
	if err != nil {
		return wire.StatusInfo{}, fmt.Errorf("query job %s: %w", id, err)
	}
	return q.answer, nil
}

// ask sends a query.
func (m *Multi) ask(id wire.GUID) (*query, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := &query{answer: wire.StatusInfo{JobID: id, State: Unknown}, done: make(chan struct{})}
	q.asked = m.able(wire.FeatureQuery)
	if j := m.jobs[id]; j != nil && j.from == nil {
		if j.at == nil {
			q.answer.State, q.answer.Why = "queued", "it waits in the client for a leader that takes jobs"
			close(q.done)
			return q, nil
		}
		q.asked = slices.DeleteFunc(q.asked, func(l *leader) bool { return l != j.at })
	}
	if len(q.asked) == 0 {
		return nil, errNotSupported
	}
	m.queries[id] = append(m.queries[id], q)
	for _, l := range q.asked {
		_ = l.conn.Send(wire.Frame{Type: wire.Query, CorrID: id}) // if the connection has ended, its reader ends the query
	}
	return q, nil
}

// status processes a Status.
func (m *Multi) status(l *leader, f *wire.Frame) error {
	var info wire.StatusInfo
	if err := json.Unmarshal(f.Payload, &info); err != nil {
		return fmt.Errorf("%w: status: %w", wire.ErrFrame, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answered(l, f.CorrID, info)
	return nil
}

// answered processes the answer of a leader, and reports whether it was asked. m.mu is held.
func (m *Multi) answered(l *leader, id wire.GUID, info wire.StatusInfo) bool {
	asked := false
	for _, q := range slices.Clone(m.queries[id]) {
		if !q.strike(l) {
			continue
		}
		asked = true
		if info.State != Unknown {
			q.answer = info
		}
		if info.State != Unknown || len(q.asked) == 0 {
			m.drop(id, q)
			close(q.done)
		}
	}
	return asked
}

// unanswered removes a lost leader from all queries, and ends those that have no other leader. m.mu is held.
func (m *Multi) unanswered(l *leader) {
	for id, all := range m.queries {
		for _, q := range slices.Clone(all) {
			if q.strike(l) && len(q.asked) == 0 {
				q.err = fmt.Errorf("leader %s: %w", l.address, link.ErrSilent)
				m.drop(id, q)
				close(q.done)
			}
		}
	}
}

// strike removes a leader from those that have not answered, and reports whether it was among them.
func (q *query) strike(l *leader) bool {
	n := len(q.asked)
	q.asked = slices.DeleteFunc(q.asked, func(other *leader) bool { return other == l })
	return len(q.asked) < n
}

// drop forgets a query. m.mu is held.
func (m *Multi) drop(id wire.GUID, q *query) {
	left := slices.DeleteFunc(m.queries[id], func(other *query) bool { return other == q })
	if m.queries[id] = left; len(left) == 0 {
		delete(m.queries, id)
	}
}
