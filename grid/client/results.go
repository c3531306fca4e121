package client

import (
	"errors"
	"slices"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// result processes a result from a leader. The first one of a job counts.
func (m *Multi) result(l *leader, f *wire.Frame) {
	id := f.CorrID
	m.mu.Lock()
	j := m.jobs[id]
	switch {
	case j != nil && j.from == nil:
		j.result, j.from = f.Payload, l
		j.arrived()
		m.tell(j)
	case j != nil: // OnResult has not taken the first one yet, so this leader must keep its own
		if l != j.from && !slices.Contains(j.others, l) {
			j.others = append(j.others, l)
		}
	case m.recent.has(id):
		l.acknowledge(id)
	default:
		m.foreign(l, id, f.Payload)
	}
	m.mu.Unlock()
}

// tell calls OnResult with the result of a job, and ends the job if OnResult has accepted the result. m.mu is held, and released meanwhile.
func (m *Multi) tell(j *Job) {
	if m.cfg.OnResult != nil {
		if err := m.told(Result{j.ID, j.result}); err != nil {
			if !j.ended && !errors.Is(err, ErrLater) { // otherwise the client has stopped, or Acknowledge ends the job
				m.refused = append(m.refused, j)
			}
			return
		}
	}
	m.taken(j)
}

// taken ends a job whose result was accepted, and acknowledges the result to its leaders. m.mu is held.
func (m *Multi) taken(j *Job) {
	m.recent.add(j.ID)
	for _, l := range append(j.others, j.from) {
		l.acknowledge(j.ID)
	}
	if !j.ended {
		j.end(j.result, nil)
	}
	m.send()
}

// ErrNotOurs is what OnResult returns for a result that is for another process.
var ErrNotOurs = errors.New("the job was not submitted here")

// ErrLater is what OnResult returns for a result that [Multi.Acknowledge] will be called for. Until then its leader keeps the result, and
// the job is unfinished.
var ErrLater = errors.New("the result will be acknowledged later")

// Acknowledge lets leaders forget results for which OnResult has returned [ErrLater], and ends their jobs. OnResult is not called with them
// again.
func (m *Multi) Acknowledge(ids ...wire.GUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if j := m.jobs[id]; j != nil && j.from != nil {
			m.taken(j)
			continue
		}
		m.recent.add(id)
		for _, l := range m.leaders { // it is not known which of them have it
			l.acknowledge(id)
		}
	}
	m.flushAcks()
}

// told calls OnResult, unless it has accepted a result of the same job. It returns nil if OnResult has accepted the result. m.mu is held,
// and released meanwhile.
func (m *Multi) told(r Result) error {
	m.mu.Unlock()
	m.telling <- struct{}{}
	defer func() { <-m.telling }()
	m.mu.Lock()
	if m.recent.has(r.JobID) {
		return nil
	}
	m.mu.Unlock()
	err := m.cfg.OnResult(r)
	m.mu.Lock()
	switch {
	case err == nil:
		m.recent.add(r.JobID)
	case !errors.Is(err, ErrLater) && !errors.Is(err, ErrNotOurs):
		m.cfg.Log.Error("cannot process the result of a job", "job", r.JobID, "err", err)
	}
	return err
}

// tellAgain calls OnResult again with results that it has returned an error for.
func (m *Multi) tellAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	refused := m.refused
	m.refused = nil
	for _, j := range refused {
		m.tell(j)
	}
	m.flushAcks()
}

// flushAcks sends the acknowledgments that wait. m.mu is held.
func (m *Multi) flushAcks() {
	for _, l := range m.leaders {
		if len(l.acks) > 0 && l.conn != nil {
			l.sendAcks()
		}
	}
}

// foreign processes the result of a job that was not submitted here: it is of an array, or an earlier process has submitted it. m.mu is
// held, and released meanwhile.
func (m *Multi) foreign(l *leader, id wire.GUID, payload []byte) {
	switch {
	case m.cfg.OnResult == nil && m.isElement(id, payload):
		l.acknowledge(id) // the caller waits for the array as a whole
	case m.cfg.OnResult == nil:
		if !l.keeps {
			m.cfg.Log.Warn("leader keeps results of jobs that were not submitted here", "leader", l.address, "first_job", id)
		}
		l.keeps = true
	default:
		if m.told(Result{id, payload}) == nil {
			l.acknowledge(id)
		}
	}
}

// isElement reports whether a result is that of a job of an array that was submitted here and is unfinished.
func (m *Multi) isElement(id wire.GUID, payload []byte) bool {
	ack, err := wire.ReadAck(payload)
	if err != nil || ack.Index == nil {
		return false
	}
	for _, j := range m.jobs {
		if j.array && wire.ElementID(j.ID, *ack.Index) == id {
			return true
		}
	}
	return false
}
