package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/batchfleet/batchfleet/grid/blob"
	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/retry"
)

const (
	stableAfter = 30 * time.Second // a connection that lasted so long was a good one
	welcomeWait = time.Second      // for the welcome of a leader; those of the original protocol send none
	ackBatch    = 256              // of results that are acknowledged in one frame
	maxCancels  = 1 << 16          // that wait for a leader that is lost
)

// retries is when a leader is tried again: by a new connection, or with jobs after it was busy.
var retries = retry.Policy{First: time.Second / 2, Max: 36 * time.Second, Jitter: 0.2} // 30 s and a fifth

// ErrRefused means that leaders want nothing of this client.
var ErrRefused = errors.New("refused by every leader")

// leader is one leader and the connection to it. What follows address is guarded by m.mu.
type leader struct {
	m       *Multi
	address string
	hello   wire.Frame
	hash    uint64 // of the address

	queue pending // jobs that wait for this leader, with the policy Rendezvous
	tried bool    // the first connection has ended, or there was none
	// reached is set by the first connection that could be used; broken is why the last one has ended.
	reached bool
	broken  error
	conn    *link.Conn     // nil when it is lost
	blobs   *blob.Client   // over conn
	puts    sync.WaitGroup // of blobs over conn
	// transfer calls put, which puts blobs over conn.
	transfer func(put func(context.Context)) (stop func())

	started  bool            // jobs may be on their way over it
	ready    bool            // jobs may be sent
	features map[string]bool // nil for the original protocol
	lost     time.Time       // when the last connection that was ready has ended
	refusal  error           // why it has refused this client
	inFlight int             // jobs that are with it
	again    []*Job          // are to be sent again over this connection
	acks     []wire.GUID     // results that are taken for good, and not yet acknowledged
	cancels  []wire.GUID     // jobs that are no longer wanted
	keeps    bool            // results that are not wanted here, as was logged
	paused   time.Time       // it takes no jobs before
	pauses   *retry.Delays
}

func newLeader(m *Multi, address string, share int) *leader {
	config := wire.ClientConfig{
		ClientID: m.cfg.ClientID, DesiredParallelism: share, Token: m.cfg.Token,
		Features: []string{
			wire.FeaturePing, wire.FeatureError, wire.FeatureCancel, wire.FeatureSubmitAck, wire.FeatureResultAck, wire.FeatureQuery,
			wire.FeatureBlob,
		},
	}
	if m.cfg.Own || m.cfg.OnResult == nil {
		config.Features = append(config.Features, wire.FeatureOwn)
	}
	payload, err := json.Marshal(config)
	if err != nil {
		panic(err) // a struct of plain fields
	}
	return &leader{
		m: m, address: address, hash: xxhash.Sum64String(address), pauses: retries.Delays(),
		hello: wire.Frame{Type: wire.HelloClient, Subject: m.cfg.ClientID, Payload: payload},
	}
}

// run keeps a connection to the leader until ctx ends. It calls stop when all leaders have refused this client.
func (l *leader) run(ctx context.Context, stop context.CancelCauseFunc) {
	delays := retries.Delays()
	for {
		began := time.Now()
		err := l.session(ctx)
		if ctx.Err() != nil {
			return
		}
		l.isDown(err)
		if time.Since(began) >= stableAfter {
			delays.Reset()
		}
		wait := delays.Next()
		l.m.cfg.Log.WarnContext(ctx, "no connection to leader", "leader", l.address, "err", err, "retry_in", wait)
		if refusal := l.m.refusal(); refusal != nil {
			stop(refusal)
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// refusal returns why all leaders refuse this client, or nil if one does not.
func (m *Multi) refusal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []error{ErrRefused}
	for _, l := range m.leaders {
		if l.refusal == nil {
			return nil
		}
		all = append(all, l.refusal)
	}
	return errors.Join(all...)
}

// Unreached returns why there was no connection to any leader yet, or nil if there was one.
func (m *Multi) Unreached() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, l := range m.leaders {
		if l.reached {
			return nil
		}
		why := "no answer yet"
		if l.broken != nil {
			why = l.broken.Error()
		}
		all = append(all, fmt.Sprintf("leader %s: %s", l.address, why))
	}
	return errors.New(strings.Join(all, "; "))
}

// session is one connection from its beginning to its end.
func (l *leader) session(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, DialTimeout)
	raw, err := l.m.cfg.Dial(dialing, l.address)
	cancel()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	conn := link.New(raw, link.Options{Dialed: true, MaxUnsent: 2*ahead + wire.MaxFrame + blob.Window + l.m.cfg.Window*ackSize, Count: l.written})
	var closer sync.WaitGroup
	closer.Go(func() {
		select {
		case <-ctx.Done():
			l.flush()        // the reader may still be at work on what came after a result
			_ = conn.Close() // with what waits to be written
		case <-conn.Done():
		}
	})
	defer closer.Wait()
	blobs := blob.NewClient(conn.Send)
	defer l.puts.Wait()
	defer blobs.Close()
	defer l.end()
	if err := conn.Send(l.hello); err != nil {
		return err
	}
	l.begin(conn, blobs, func(put func(context.Context)) (stop func()) {
		ctx, stop := context.WithCancel(ctx)
		l.puts.Go(func() { defer stop(); put(ctx) })
		return stop
	})
	late := time.AfterFunc(welcomeWait, func() { l.start(conn) })
	defer late.Stop()
	for {
		f, err := conn.Receive()
		if err != nil {
			return err
		}
		if err := l.take(conn, &f); err != nil {
			conn.Abort(err)
			return err
		}
		if !conn.Ready() {
			l.flush()
		}
	}
}

// ackSize is how much an acknowledgment or a cancellation takes of what may wait to be written.
const ackSize = 64

func (l *leader) begin(conn *link.Conn, blobs *blob.Client, transfer func(func(context.Context)) func()) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.conn, l.blobs, l.transfer, l.refusal = conn, blobs, transfer, nil
}

// start lets jobs be sent over the connection, and sends those again that may not have arrived over the one before.
func (l *leader) start(conn *link.Conn) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.conn != conn || l.started {
		return
	}
	l.started, l.ready, l.reached = true, true, true
	l.m.cfg.Log.Info("connected to leader", "leader", l.address, "features", len(l.features), "again", l.inFlight)
	for _, j := range l.m.jobs {
		switch {
		case j.at != l: // it is elsewhere, or its result is here
		case j.canceled && l.features[wire.FeatureCancel]:
			l.cancels = append(l.cancels, j.ID)
		default:
			l.again = append(l.again, j)
		}
	}
	slices.SortFunc(l.again, func(a, b *Job) int { return cmp.Compare(a.order, b.order) })
	for _, id := range l.cancels {
		l.sendCancel(id)
	}
	l.cancels = nil
	l.m.send()
}

// end is called when the connection has ended.
func (l *leader) end() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.started {
		l.lost = time.Now()
	}
	l.conn, l.blobs, l.started, l.ready, l.features, l.again, l.acks = nil, nil, false, false, nil, nil, nil
	l.m.unanswered(l)
}

// isDown lets other leaders have the jobs that wait for this one.
func (l *leader) isDown(why error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.tried, l.broken = true, why
	l.m.send()
}

// takes reports whether a job can be given to the leader now. m.mu is held.
func (l *leader) takes() bool {
	return l.ready && len(l.again) == 0 && !l.isPaused() && l.conn.Unsent() < ahead
}

// isPaused reports whether the leader is given no jobs for a while. m.mu is held.
func (l *leader) isPaused() bool { return !l.paused.IsZero() && time.Now().Before(l.paused) }

// sendAgain sends jobs again that may not have arrived. m.mu is held.
func (l *leader) sendAgain() {
	for len(l.again) > 0 && l.conn.Unsent() < ahead {
		j := l.again[0]
		l.again = l.again[1:]
		if j.at == l {
			_ = l.give(j) // when the connection has ended, all of this is done again
		}
	}
}

// written is told by the connection that it has written frames.
func (l *leader) written(_, frames int) {
	if frames == 0 {
		return
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.ready && (len(l.again) > 0 || len(l.queue) > 0 || len(l.m.pending) > 0) {
		l.m.send()
	}
}

// pause gives the leader no jobs for a while. m.mu is held.
func (l *leader) pause() {
	if now := time.Now(); !now.Before(l.paused) {
		l.paused = now.Add(l.pauses.Next())
	}
}

// cancel tells the leader that a job is no longer wanted, now or when it is back. m.mu is held.
func (l *leader) cancel(id wire.GUID) {
	switch {
	case l.ready:
		l.sendCancel(id)
	case len(l.cancels) < maxCancels:
		l.cancels = append(l.cancels, id)
	}
}

func (l *leader) sendCancel(id wire.GUID) {
	if l.features[wire.FeatureCancel] {
		_ = l.conn.Send(wire.Frame{Type: wire.Cancel, CorrID: id})
	}
}

// acknowledge lets the leader forget a result, with the next ones. m.mu is held.
func (l *leader) acknowledge(id wire.GUID) {
	if l.features[wire.FeatureResultAck] {
		if l.acks = append(l.acks, id); len(l.acks) >= ackBatch {
			l.sendAcks()
		}
	}
}

func (l *leader) sendAcks() {
	_ = l.conn.Send(wire.Frame{Type: wire.ResultAck, Payload: wire.AppendGUIDs(nil, l.acks...)})
	l.acks = l.acks[:0]
}

// flush sends the acknowledgments that wait.
func (l *leader) flush() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if len(l.acks) > 0 && l.conn != nil {
		l.sendAcks()
	}
}
