package leader

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/door"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// features are those that this leader has. A peer is welcomed with those that it lists as well.
var features = []string{
	wire.FeatureAccept, wire.FeatureCancel, wire.FeaturePing, wire.FeatureError, wire.FeatureSubmitAck, wire.FeatureResultAck, wire.FeatureQuery, wire.FeatureDrain,
	wire.FeatureArray, wire.FeatureAttempt, wire.FeatureReport, wire.FeatureOwn,
}

// peer is a connection to a client or a worker.
type peer struct {
	door.Peer
	id     schedule.PeerID
	worker wire.GUID
	entry
	blobs    *blob.Server          // nil for a peer that knows none; of the reader
	out      [senders][]wire.Frame // of the batch that is carried out, by who sends them
	subjects map[string]string     // of AssignJob, by exec; of the loop
	ignored  int                   // frames of types that are not known
}

// peers are the connections.
type peers struct {
	mu    sync.Mutex
	byID  map[schedule.PeerID]*peer
	next  schedule.PeerID
	ended bool
}

// add gives a connection its id.
func (ps *peers) add(p *peer) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ended {
		return ErrStopped
	}
	ps.next++
	p.id = ps.next
	ps.byID[p.id] = p
	return nil
}

func (ps *peers) remove(p *peer) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.byID, p.id)
}

func (ps *peers) get(id schedule.PeerID) *peer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byID[id]
}

// all returns the connections that are open.
func (ps *peers) all() []*peer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.Collect(maps.Values(ps.byID))
}

func (ps *peers) closeAll(err error) {
	ps.mu.Lock()
	ps.ended = true
	ps.mu.Unlock()
	var closing sync.WaitGroup
	for _, p := range ps.all() {
		closing.Go(func() {
			_ = p.Close() // what is promised and queued is written
			p.Abort(err)
		})
	}
	closing.Wait()
}

// serve reads what a connection sends until it ends.
func (l *Leader) serve(ctx context.Context, conn net.Conn) {
	p := &peer{subjects: map[string]string{}}
	p.Conn = link.New(conn, l.options(p))
	log := l.Log.With("remote", conn.RemoteAddr().String())
	if err := l.peers.add(p); err != nil {
		p.Abort(err)
		return
	}
	defer l.peers.remove(p)
	err := l.greet(p, conn)
	if err == nil {
		log = log.With("peer", p.who())
		log.DebugContext(ctx, "a peer has connected", "features", p.Features)
		l.serveBlobs(p)
		err = l.read(p) //nolint:contextcheck // a transfer ends with its connection
		l.put(event{op: gone, peer: p.id})
	}
	l.Metrics.ended(err)
	switch {
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, ErrStopped):
		log.DebugContext(ctx, "a peer has closed its connection")
	default:
		log.WarnContext(ctx, "a connection has ended", "err", err)
	}
	p.Abort(err)
	if p.blobs != nil {
		p.blobs.Close()
	}
}

func (p *peer) who() string {
	if p.Name != "" {
		return "client " + p.Name
	}
	return "worker " + p.worker.String()
}

// greet reads the hello of a connection.
func (l *Leader) greet(p *peer, conn net.Conn) error {
	f, err := p.Receive()
	if err != nil {
		return err
	}
	cert := access.PeerCertificate(conn)
	switch f.Type {
	case wire.HelloClient:
		err = l.greetClient(p, f, cert)
	case wire.HelloWorker:
		err = l.greetWorker(p, f, cert)
	default:
		err = fmt.Errorf("%w: %s before a hello", wire.ErrFrame, f.Type)
	}
	return err
}

func (l *Leader) greetClient(p *peer, f wire.Frame, cert *x509.Certificate) error {
	c, err := wire.ReadConfig(f.Subject, f.Payload)
	p.Features = c.Features
	if err != nil {
		return p.Refuse(wire.CodeProtocol, err)
	}
	p.Name = c.ClientID
	rules, err := l.enter(p, c.Token, cert)
	if err != nil {
		return p.Refuse(wire.CodeForbidden, err)
	}
	limit, err := rules.Client(p.principal, p.Name, c.DesiredParallelism)
	if err != nil {
		return err
	}
	l.put(event{op: helloClient, peer: p.id, name: c.ClientID, n: limit, features: c.Features})
	return nil
}

func (l *Leader) greetWorker(p *peer, f wire.Frame, cert *x509.Certificate) error {
	c, err := wire.ReadCapability(f.Payload)
	p.Features = c.Features
	pattern := cmp.Or(f.Subject, wire.DefaultPattern)
	if err == nil {
		err = subject.CheckPattern(pattern)
	}
	if err == nil && f.MsgID.IsZero() {
		err = errors.New("MsgId of HelloWorker is zero: it is the worker's id")
	}
	if err != nil {
		return p.Refuse(wire.CodeProtocol, err)
	}
	p.worker, p.pattern = f.MsgID, pattern
	if _, err := l.enter(p, c.Token, cert); err != nil {
		return p.Refuse(wire.CodeForbidden, err)
	}
	l.put(event{op: helloWorker, peer: p.id, info: &schedule.WorkerInfo{
		ID: f.MsgID, Pattern: pattern, Host: c.Host, Features: c.Features, Limit: c.MaxParallel, Running: c.Running,
	}})
	return nil
}

// welcome is what a peer is told of this leader.
func (l *Leader) welcome() wire.WelcomeInfo {
	ours := features
	if l.Blobs != nil {
		ours = append(slices.Clone(features), wire.FeatureBlob)
	}
	return wire.WelcomeInfo{Proto: 2, LeaderID: l.ID, Features: ours, Durable: l.Durable(), LeaseMs: l.core.Lease().Milliseconds()}
}
