package client

import (
	"encoding/json"
	"fmt"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// take takes a frame from the leader. The error ends the connection.
func (l *leader) take(conn *link.Conn, f *wire.Frame) error {
	switch f.Type {
	case wire.Result:
		l.m.result(l, f)
	case wire.Welcome:
		return l.welcome(conn, f)
	case wire.SubmitAck:
		return l.submitAck(f)
	case wire.Error:
		return l.failure(f)
	case wire.BlobBegin, wire.BlobChunk, wire.BlobEnd:
		return l.blobs.Handle(*f) // of this goroutine
	case wire.Status:
		return l.m.status(l, f)
	default: // newer leaders may have more to say
	}
	return nil
}

func (l *leader) welcome(conn *link.Conn, f *wire.Frame) error {
	var info wire.WelcomeInfo
	if err := json.Unmarshal(f.Payload, &info); err != nil {
		return fmt.Errorf("%w: welcome: %w", wire.ErrFrame, err)
	}
	features := map[string]bool{}
	for _, name := range info.Features {
		features[name] = true
	}
	l.m.mu.Lock()
	l.features = features
	l.m.mu.Unlock()
	if features[wire.FeaturePing] {
		conn.Ping()
	}
	l.start(conn)
	return nil
}

func (l *leader) submitAck(f *wire.Frame) error {
	ids, err := wire.GUIDs(f.Payload)
	if err != nil {
		return fmt.Errorf("submit ack: %w", err)
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.pauses.Reset()
	for _, id := range ids {
		if j := l.m.jobs[id]; j != nil && !j.acked {
			j.acked = true
			if j.queued != nil {
				close(j.queued)
			}
		}
	}
	return nil
}

// failure takes an Error. The error ends the connection.
func (l *leader) failure(f *wire.Frame) error {
	var info wire.ErrorInfo
	if err := json.Unmarshal(f.Payload, &info); err != nil {
		return fmt.Errorf("%w: error: %w", wire.ErrFrame, err)
	}
	told := &Error{Code: info.Code, Message: info.Message, Leader: l.address}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if f.CorrID.IsZero() {
		return l.connFailure(told)
	}
	if info.Code == wire.CodeNotFound && l.m.answered(l, f.CorrID, wire.StatusInfo{JobID: f.CorrID, State: Unknown}) {
		return nil
	}
	if j := l.m.jobs[f.CorrID]; j != nil && j.at == l {
		j.refuse(told)
		l.m.send()
	}
	return nil
}

// connFailure takes an Error that is about no job. m.mu is held.
func (l *leader) connFailure(told *Error) error {
	switch told.Code {
	case wire.CodeBusy, wire.CodeNoSpace, wire.CodeDraining:
		l.pause()
		l.m.cfg.Log.Warn("leader takes no jobs", "leader", l.address, "code", told.Code, "message", told.Message)
		return nil
	default:
		if !l.started {
			l.refusal = told
		}
		return told
	}
}

// refuse takes the answer of the leader that does not take the job. m.mu is held.
func (j *Job) refuse(told *Error) {
	l := j.at
	j.leave()
	switch told.Code {
	case wire.CodeBusy, wire.CodeNoSpace, wire.CodeDraining:
		l.pause()
	case wire.CodeNotFound: // it has lost what it had
		if j.canceled {
			j.end(nil, ErrCanceled)
			return
		}
	default:
		j.end(nil, told)
		return
	}
	j.m.pending.add(j)
}
