package door

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// Peer is a connection that has said hello, or is about to.
type Peer struct {
	*link.Conn
	Name     string // of a client; empty for a worker
	Features []string
}

// Has reports whether the peer has a feature.
func (p *Peer) Has(feature string) bool { return slices.Contains(p.Features, feature) }

// Welcome answers a hello that lists features, with those that both ends have. From now on the peer has these alone.
func (p *Peer) Welcome(info wire.WelcomeInfo) error {
	if len(p.Features) == 0 {
		return nil
	}
	p.Features = slices.DeleteFunc(slices.Clone(p.Features), func(f string) bool { return !slices.Contains(info.Features, f) })
	info.Features = p.Features
	if p.Has(wire.FeaturePing) {
		p.Ping()
	}
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return p.Send(wire.Frame{Type: wire.Welcome, MsgID: info.LeaderID, Payload: text})
}

// Refuse tells a peer why its connection is closed.
func (p *Peer) Refuse(code string, err error) error {
	_ = p.Send(p.ErrorFrame(wire.GUID{}, code, err.Error())...)
	_ = p.Close()
	return fmt.Errorf("%s: %w", code, err)
}

// ErrorFrame is an Error for a peer that knows them, and nothing for another.
func (p *Peer) ErrorFrame(job wire.GUID, code, message string) []wire.Frame {
	if !p.Has(wire.FeatureError) {
		return nil
	}
	text, _ := json.Marshal(wire.ErrorInfo{Code: code, Message: message}) // of two texts
	return []wire.Frame{{Type: wire.Error, MsgID: wire.NewGUID(), CorrID: job, Payload: text}}
}

// RefusalFrame tells a client that its job is not taken. One that knows no Error gets a result: it has no time limit for its jobs.
func (p *Peer) RefusalFrame(job wire.GUID, exec, code, message string) []wire.Frame {
	if p.Has(wire.FeatureError) || job.IsZero() {
		return p.ErrorFrame(job, code, message)
	}
	return p.FailedFrame(job, exec, wire.ReasonRejected, message)
}

// FailedFrame is the Result of a job that no worker has run.
func (p *Peer) FailedFrame(job wire.GUID, exec, reason, message string) []wire.Frame {
	text, err := wire.MarshalResult(&wire.JobResult{
		JobID: job, ClientID: p.Name, ExecName: exec, Status: wire.Failed, Reason: reason, Message: message, Stderr: message,
	})
	if err != nil {
		return nil // it is made of texts
	}
	return []wire.Frame{{Type: wire.Result, MsgID: job, CorrID: job, Subject: wire.ResultSubject(p.Name, job), Payload: text}}
}

// Denied logs which line of a file of rules refuses something, and returns what the peer is told of it.
func (p *Peer) Denied(log *slog.Logger, err error) error {
	denied, ok := errors.AsType[*access.DeniedError](err)
	if !ok {
		return err
	}
	log.Warn("a peer is refused", "remote", p.RemoteAddr().String(), "rule", denied.Where, "err", denied.Message)
	return errors.New(denied.Message)
}
