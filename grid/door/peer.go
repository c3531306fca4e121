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

// Peer is a connection whose hello is read, or is still to be read.
type Peer struct {
	*link.Conn
	Name     string // of a client; empty for a worker
	Features []string
}

// Has reports whether the peer has a feature.
func (p *Peer) Has(feature string) bool { return slices.Contains(p.Features, feature) }

// Welcome answers a hello that lists features. From now on [Peer.Has] reports only the features that both ends have.
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

// Refuse sends a peer the reason, and closes its connection. It returns err with the code; with [wire.CodeProtocol] it
// wraps [wire.ErrFrame].
func (p *Peer) Refuse(code string, err error) error {
	_ = p.Send(p.ErrorFrame(wire.GUID{}, code, err.Error())...)
	_ = p.Close()
	if code == wire.CodeProtocol && !errors.Is(err, wire.ErrFrame) {
		return fmt.Errorf("%w: %w", wire.ErrFrame, err)
	}
	return fmt.Errorf("%s: %w", code, err)
}

// ErrorFrame returns an Error, or no frame if the peer does not have that feature. The job may be zero.
func (p *Peer) ErrorFrame(job wire.GUID, code, message string) []wire.Frame {
	if !p.Has(wire.FeatureError) {
		return nil
	}
	text, _ := json.Marshal(wire.ErrorInfo{Code: code, Message: message}) // two texts can always be encoded
	return []wire.Frame{{Type: wire.Error, MsgID: wire.NewGUID(), CorrID: job, Payload: text}}
}

// RefusalFrame tells a client that its job is refused: by an Error, or by a failed Result if the client does not have that feature. Without one it
// would wait without end.
func (p *Peer) RefusalFrame(job wire.GUID, exec, code, message string) []wire.Frame {
	if p.Has(wire.FeatureError) || job.IsZero() {
		return p.ErrorFrame(job, code, message)
	}
	return p.FailedFrame(job, exec, wire.ReasonRejected, message)
}

// FailedFrame returns the failed Result of a job that no worker has run.
func (p *Peer) FailedFrame(job wire.GUID, exec, reason, message string) []wire.Frame {
	text, err := wire.MarshalResult(&wire.JobResult{
		JobID: job, ClientID: p.Name, ExecName: exec, Status: wire.Failed, Reason: reason, Message: message, Stderr: message,
	})
	if err != nil {
		return nil // texts can always be encoded
	}
	return []wire.Frame{{Type: wire.Result, MsgID: job, CorrID: job, Subject: wire.ResultSubject(p.Name, job), Payload: text}}
}

// Denied logs an [*access.DeniedError] with its place in the file of rules, and returns what the peer may know of it. Other errors, and nil, are
// returned as they are.
func (p *Peer) Denied(log *slog.Logger, err error) error {
	denied, ok := errors.AsType[*access.DeniedError](err)
	if !ok {
		return err
	}
	log.Warn("a peer is refused", "remote", p.RemoteAddr().String(), "rule", denied.Where, "err", denied.Message)
	return errors.New(denied.Message)
}
