package client

import (
	"errors"

	"github.com/batchfleet/batchfleet/grid/wire"
)

// result takes a result from a leader. The first one of a job counts.
func (m *Multi) result(l *leader, f *wire.Frame) {
	id := f.CorrID
	m.mu.Lock()
	j := m.jobs[id]
	switch {
	case j != nil && j.from == nil:
		j.result, j.from = f.Payload, l
		j.callOff()
		m.tell(j)
	case j != nil: // OnResult has not taken the first one yet, so this leader must keep its own
	case m.recent.has(id):
		l.acknowledge(id)
	default:
		m.foreign(l, id, f.Payload)
	}
	m.mu.Unlock()
}

// tell tells OnResult, and ends the job if that takes the result. m.mu is held, and released meanwhile.
func (m *Multi) tell(j *Job) {
	if m.cfg.OnResult != nil && !m.told(Result{j.ID, j.result}) {
		if !j.ended { // the client has stopped
			m.refused = append(m.refused, j)
		}
		return
	}
	m.recent.add(j.ID)
	j.from.acknowledge(j.ID)
	if !j.ended {
		j.end(j.result, nil)
	}
	m.send()
}

// ErrNotOurs is what OnResult returns for a result that another process is to have, or the next one.
var ErrNotOurs = errors.New("the job was not submitted here")

// told tells OnResult, unless another leader had the same result. It reports whether the result was taken. m.mu is held, and
// released meanwhile.
func (m *Multi) told(r Result) bool {
	m.mu.Unlock()
	m.telling <- struct{}{}
	defer func() { <-m.telling }()
	m.mu.Lock()
	if m.recent.has(r.JobID) {
		return true
	}
	m.mu.Unlock()
	err := m.cfg.OnResult(r)
	m.mu.Lock()
	if err != nil {
		if !errors.Is(err, ErrNotOurs) {
			m.cfg.Log.Error("result of job is not taken", "job", r.JobID, "err", err)
		}
		return false
	}
	m.recent.add(r.JobID)
	return true
}

// tellAgain tells OnResult of results that it has refused.
func (m *Multi) tellAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	refused := m.refused
	m.refused = nil
	for _, j := range refused {
		m.tell(j)
	}
	for _, l := range m.leaders {
		if len(l.acks) > 0 && l.conn != nil {
			l.sendAcks()
		}
	}
}

// foreign takes the result of a job that was not submitted here: it is of an array, or an earlier process has submitted it. m.mu
// is held, and released meanwhile.
func (m *Multi) foreign(l *leader, id wire.GUID, payload []byte) {
	switch {
	case m.cfg.OnResult == nil && m.isElement(id, payload):
		l.acknowledge(id) // the caller waits for the array as a whole
	case m.cfg.OnResult == nil:
		if !l.keeps {
			m.cfg.Log.Warn("leader keeps results of jobs that were not submitted here", "leader", l.address, "first_job", id)
		}
		l.keeps = true
	case m.told(Result{id, payload}):
		l.acknowledge(id)
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
