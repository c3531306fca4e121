package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/outbox"
	"github.com/batchfleet/batchfleet/retry"
)

// recipient is a leader that gets the result of a job.
type recipient struct {
	peer *peer
	job  wire.GUID
}

// delivery is a result that its leader does not have yet.
type delivery struct {
	recipient
	payload []byte
	again   chan struct{} // holds a token when it is to be sent again
	settled chan struct{} // closed when the leader has it, or does not need it

	// Guarded by Member.mu.
	attempt wire.GUID
	places  int  // see attempt; none once it was sent
	written bool // to the current connection
}

// finish ends a run, and delivers its result to all leaders that have assigned the job. With keep the result is also kept for leaders that assign the
// job later. It does nothing if the run has ended before.
func (m *Member) finish(r *run, payload []byte, keep bool) {
	m.mu.Lock()
	if m.runs[r.id] != r {
		m.mu.Unlock()
		return
	}
	m.remove(r)
	var all []*delivery
	for _, a := range r.attempts {
		if a.lost {
			a.peer.places -= a.places
			defer a.peer.grant()
			continue
		}
		all = append(all, m.addDelivery(recipient{a.peer, r.id}, a.id, payload, a.places))
	}
	if keep {
		m.cache.add(r.id, payload, time.Now())
	}
	m.mu.Unlock()
	m.deliver(all...)
}

// addDelivery adds a delivery, in place of an earlier one to the same recipient. m.mu is held.
func (m *Member) addDelivery(to recipient, attempt wire.GUID, payload []byte, places int) *delivery {
	if old := m.undelivered[to]; old != nil {
		places += old.places
		old.places = 0
		m.settle(old)
	}
	d := &delivery{recipient: to, payload: payload, attempt: attempt, places: places, again: make(chan struct{}, 1), settled: make(chan struct{})}
	m.undelivered[to] = d
	m.bytes += len(payload)
	m.Metrics.undelivered.Set(float64(len(m.undelivered)))
	return d
}

// deliver writes results to disk, and lets [Member.Run] deliver them. If they cannot be written they are in memory only: then no more jobs are taken,
// see [Member.Check].
func (m *Member) deliver(all ...*delivery) {
	entries := make([]outbox.Entry, len(all))
	for i, d := range all {
		entries[i] = outbox.Entry{Name: d.name(), Text: d.entry()}
	}
	// Not synced: they survive the end of the process; after a power cut the job runs again.
	if err := m.outbox.PutUnsynced(entries...); err != nil {
		m.Log.Warn("cannot write a result to disk: it is lost if this process ends before it is delivered", "job", all[0].job, "dir", m.Dir, "err", err)
	}
	for _, d := range all {
		m.send(d)
	}
}

// send lets the outbox try a delivery until it is settled.
func (m *Member) send(d *delivery) {
	m.outbox.Deliver(outbox.Item{Try: d.try, Attrs: []slog.Attr{slog.Any("job", d.job), slog.String("leader", d.peer.addr)}})
}

// deliveries is when a delivery is tried again after an error other than a lost connection.
var deliveries = retry.Policy{First: time.Second, Max: 30 * time.Second}

// try sends the result over one connection after the other, until it is settled.
func (d *delivery) try(ctx context.Context) error {
	for {
		s, err := d.peer.await(ctx, d.settled)
		if err != nil {
			return &outbox.RetryError{Err: err}
		}
		if s == nil {
			return nil
		}
		err = d.sendOver(ctx, s)
		if errors.Is(err, wire.ErrTooLarge) { // written by a later version
			d.peer.Log.ErrorContext(ctx, "a result is too large for a frame and is dropped", "job", d.job, "bytes", len(d.payload), "err", err)
			d.peer.settleNow(d)
			return nil
		}
		select {
		case <-d.settled:
			return nil
		case <-d.again: // over the same connection
		case <-s.Done():
		case <-ctx.Done():
			return &outbox.RetryError{Err: fmt.Errorf("the leader has not acknowledged it: %w", context.Cause(ctx))}
		}
	}
}

// await returns the leader's connection once it is known whether the leader acknowledges results; nil if settled is closed before.
func (p *peer) await(ctx context.Context, settled <-chan struct{}) (*session, error) {
	for {
		p.mu.Lock()
		s, changed := p.session, p.changed
		p.mu.Unlock()
		var known <-chan struct{}
		if s != nil {
			known = s.known
		}
		select {
		case <-known:
			return s, nil
		case <-changed:
		case <-settled:
			return nil, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("no connection to the leader: %w", context.Cause(ctx))
		}
	}
}

// sendOver queues the result on a connection, when what waits there leaves room for it. Then the leader gets the credits that the job has
// used: not sooner, because until the leader has the result it counts the job.
func (d *delivery) sendOver(ctx context.Context, s *session) error {
	select {
	case s.sending <- struct{}{}:
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.sending }()
	if err := s.Wait(ctx); err != nil {
		return err
	}
	p := d.peer
	p.mu.Lock()
	if p.session != s || p.undelivered[d.recipient] != d {
		p.mu.Unlock()
		return nil // try finds out
	}
	err := s.SendWith(wire.Frame{Type: wire.AckJob, MsgID: d.attempt, CorrID: d.job, Payload: d.payload}, d.job)
	if err == nil {
		p.places -= d.places
		d.places = 0
	}
	p.mu.Unlock()
	if err == nil {
		p.grant()
	}
	return err
}

// sendAgain makes try send a result again: the leader has assigned the job again.
func (d *delivery) sendAgain() {
	select {
	case d.again <- struct{}{}:
	default:
	}
}

// written notes results that were written. For a leader without ResultAck they are delivered then.
func (s *session) written(ids []wire.GUID) {
	m := s.peer.Member
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		d := m.undelivered[recipient{s.peer, id}]
		if d == nil {
			continue
		}
		d.written = true
		if !s.has(wire.FeatureResultAck) {
			m.settle(d)
		}
	}
}

// resultAck processes a ResultAck.
func (s *session) resultAck(f wire.Frame) error {
	ids, err := wire.GUIDs(f.Payload)
	if err != nil {
		return err
	}
	m := s.peer.Member
	m.mu.Lock()
	for _, id := range ids {
		if d := m.undelivered[recipient{s.peer, id}]; d != nil {
			m.settle(d)
		}
	}
	m.mu.Unlock()
	s.peer.grant() // some may not have been sent yet
	return nil
}

// settle ends a delivery. m.mu is held.
func (m *Member) settle(d *delivery) {
	d.peer.places -= d.places
	delete(m.undelivered, d.recipient)
	m.bytes -= len(d.payload)
	m.Metrics.undelivered.Set(float64(len(m.undelivered)))
	m.outbox.Remove(d.name())
	close(d.settled)
}

func (p *peer) settleNow(d *delivery) {
	p.mu.Lock()
	if p.undelivered[d.recipient] == d {
		p.settle(d)
	}
	p.mu.Unlock()
	p.grant()
}

// peerAt returns the leader with an address, or the first leader if none has it.
func (m *Member) peerAt(addr string) *peer {
	if i := slices.IndexFunc(m.peers, func(p *peer) bool { return p.addr == addr }); i >= 0 {
		return m.peers[i]
	}
	return m.peers[0]
}
