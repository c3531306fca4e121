package leader

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/batchfleet/batchfleet/grid/access"
	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/schedule"
	"github.com/batchfleet/batchfleet/grid/subject"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// features are those that this leader has. A peer is welcomed with those that it lists as well.
var features = []string{
	wire.FeatureAccept, wire.FeatureCancel, wire.FeaturePing, wire.FeatureError, wire.FeatureSubmitAck, wire.FeatureResultAck, wire.FeatureQuery, wire.FeatureDrain,
	wire.FeatureArray, wire.FeatureReport, wire.FeatureOwn,
}

// peer is a connection to a client or a worker.
type peer struct {
	*link.Conn
	id       schedule.PeerID
	name     string // of a client
	worker   wire.GUID
	features []string
	entry
	blobs    *blob.Server          // nil for a peer that knows none; of the reader
	out      [senders][]wire.Frame // of the batch that is carried out, by who sends them
	subjects map[string]string     // of AssignJob, by exec; of the loop
	ignored  int                   // frames of types that are not known
}

func (p *peer) has(feature string) bool { return slices.Contains(p.features, feature) }

// peers are the connections.
type peers struct {
	mu    sync.Mutex
	byID  map[schedule.PeerID]*peer
	next  schedule.PeerID
	conns int
	perIP map[string]int
	ended bool
}

func (ps *peers) admit(ip string, most, perIP int) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	switch {
	case ps.ended:
		return ErrStopped
	case ps.conns >= most:
		return fmt.Errorf("there are %d connections, at most %d", ps.conns, most)
	case ps.perIP[ip] >= perIP:
		return fmt.Errorf("there are %d connections from %s, at most %d", ps.perIP[ip], ip, perIP)
	}
	ps.conns++
	ps.perIP[ip]++
	return nil
}

func (ps *peers) leave(ip string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.conns--
	if ps.perIP[ip]--; ps.perIP[ip] <= 0 {
		delete(ps.perIP, ip)
	}
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

func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	return cmp.Or(host, fmt.Sprint(err))
}

func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
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
		log.DebugContext(ctx, "a peer has connected", "features", p.features)
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
	if p.name != "" {
		return "client " + p.name
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
	p.features = c.Features
	if err != nil {
		return l.refuse(p, wire.CodeProtocol, err)
	}
	p.name = c.ClientID
	rules, err := l.enter(p, c.Token, cert)
	if err != nil {
		return l.refuse(p, wire.CodeForbidden, err)
	}
	limit, err := rules.Client(p.principal, p.name, c.DesiredParallelism)
	if err != nil {
		return err
	}
	if err := l.welcome(p, len(c.Features) > 0); err != nil {
		return err
	}
	l.put(event{op: helloClient, peer: p.id, name: c.ClientID, n: limit, features: c.Features})
	return nil
}

func (l *Leader) greetWorker(p *peer, f wire.Frame, cert *x509.Certificate) error {
	c, err := wire.ReadCapability(f.Payload)
	p.features = c.Features
	pattern := cmp.Or(f.Subject, wire.DefaultPattern)
	if err == nil {
		err = subject.CheckPattern(pattern)
	}
	if err == nil && f.MsgID.IsZero() {
		err = errors.New("MsgId of HelloWorker is zero: it is the worker's id")
	}
	if err != nil {
		return l.refuse(p, wire.CodeProtocol, err)
	}
	p.worker, p.pattern = f.MsgID, pattern
	if _, err := l.enter(p, c.Token, cert); err != nil {
		return l.refuse(p, wire.CodeForbidden, err)
	}
	if err := l.welcome(p, len(c.Features) > 0); err != nil {
		return err
	}
	l.put(event{op: helloWorker, peer: p.id, info: &schedule.WorkerInfo{
		ID: f.MsgID, Pattern: pattern, Host: c.Host, Features: c.Features, Limit: c.MaxParallel, Running: c.Running,
	}})
	return nil
}

// refuse tells a peer why its connection is closed.
func (l *Leader) refuse(p *peer, code string, err error) error {
	_ = p.Send(errorFrame(p, wire.GUID{}, code, err.Error())...)
	_ = p.Close()
	return fmt.Errorf("%s: %w", code, err)
}

// errorFrame is an Error for a peer that knows them, and nothing for another.
func errorFrame(p *peer, job wire.GUID, code, message string) []wire.Frame {
	if !p.has(wire.FeatureError) {
		return nil
	}
	text, _ := json.Marshal(wire.ErrorInfo{Code: code, Message: message}) // of two texts
	return []wire.Frame{{Type: wire.Error, MsgID: wire.NewGUID(), CorrID: job, Payload: text}}
}

// refusalFrame tells a client that its job is not taken. One that knows no Error gets a result, for which it would wait for ever.
func refusalFrame(p *peer, job wire.GUID, exec, code, message string) []wire.Frame {
	if p.has(wire.FeatureError) || job.IsZero() {
		return errorFrame(p, job, code, message)
	}
	text, err := wire.MarshalResult(&wire.JobResult{
		JobID: job, ClientID: p.name, ExecName: exec, Status: wire.Failed, Reason: wire.ReasonRejected, Message: message, Stderr: message,
	})
	if err != nil {
		return nil // it is made of texts
	}
	return []wire.Frame{{Type: wire.Result, MsgID: job, CorrID: job, Subject: wire.ResultSubject(p.name, job), Payload: text}}
}

// common returns those features of a peer that this leader has.
func (l *Leader) common(theirs []string) []string {
	return slices.DeleteFunc(slices.Clone(theirs), func(f string) bool {
		return !slices.Contains(features, f) && (f != wire.FeatureBlob || l.Blobs == nil)
	})
}

// welcome answers the hello of a peer, if that lists features.
func (l *Leader) welcome(p *peer, asked bool) error {
	if !asked {
		return nil
	}
	if p.has(wire.FeaturePing) {
		p.Ping()
	}
	info := wire.WelcomeInfo{Proto: 2, LeaderID: l.ID, Features: p.features, Durable: l.Durable(), LeaseMs: l.core.Lease().Milliseconds()}
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return p.Send(wire.Frame{Type: wire.Welcome, MsgID: l.ID, Payload: text})
}
