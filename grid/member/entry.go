package member

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/batchfleet/batchfleet/grid/wire"
	"github.com/batchfleet/batchfleet/outbox"
)

// An entry of the outbox is a byte with its version, the GUIDs of the job and of the attempt, a byte with the length of the leader's
// address, the address, and the JobResult.
const (
	entryVersion = 1
	entryHeader  = 1 + 16 + 16 + 1
	maxAddr      = 255
	maxEntry     = entryHeader + maxAddr + wire.MaxFrame

	keepCorrupt = 7 * 24 * time.Hour // how long entries that cannot be read are kept, for people
)

// name returns the name of the delivery's entry in the outbox.
func (d *delivery) name() string {
	sum := sha256.Sum256([]byte(d.peer.addr))
	return d.job.N() + "-" + hex.EncodeToString(sum[:4])
}

// entry returns the delivery's entry.
func (d *delivery) entry() []byte {
	text := make([]byte, 0, entryHeader+len(d.peer.addr)+len(d.payload))
	text = wire.AppendGUIDs(append(text, entryVersion), d.job, d.attempt)
	text = append(append(text, byte(len(d.peer.addr))), d.peer.addr...) //nolint:gosec // at most maxAddr
	return append(text, d.payload...)
}

// parseEntry reads what entry has returned.
func parseEntry(text []byte) (job, attempt wire.GUID, addr string, payload []byte, err error) {
	if len(text) < entryHeader || len(text) < entryHeader+int(text[entryHeader-1]) {
		return job, attempt, "", nil, errors.New("it is too short for a result")
	}
	if text[0] != entryVersion {
		return job, attempt, "", nil, fmt.Errorf("version %d is not known", text[0])
	}
	ids, err := wire.GUIDs(text[1 : 1+2*16])
	if err != nil {
		return job, attempt, "", nil, err
	}
	end := entryHeader + int(text[entryHeader-1])
	return ids[0], ids[1], string(text[entryHeader:end]), text[end:], nil
}

// openOutbox locks the directory, and delivers the results that an earlier process has left.
func (m *Member) openOutbox(ctx context.Context) error {
	m.outbox = &outbox.Box{
		Dir: m.Dir, MaxEntry: maxEntry, KeepFor: keepCorrupt,
		Sender: outbox.Sender{Uploads: 1, Retry: deliveries, FinalTimeout: finalTimeout, Log: m.Log},
	}
	if err := m.outbox.Open(); errors.Is(err, outbox.ErrInUse) { //nolint:contextcheck // what is synced later has no deadline
		return fmt.Errorf("open directory %s: %w: give each worker one of its own", m.Dir, err)
	} else if err != nil {
		return fmt.Errorf("open directory of results: %w", err)
	}
	err := m.outbox.Load(ctx, func(name string, text []byte) error {
		job, attempt, addr, payload, err := parseEntry(text)
		if err != nil {
			return err
		}
		m.recover(name, recipient{m.peerAt(addr), job}, attempt, payload)
		return nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("read directory of results: %w", err), m.outbox.Close())
	}
	if n := len(m.undelivered); n > 0 {
		m.Log.InfoContext(ctx, "delivering the results of an earlier run of this worker", "results", n)
	}
	return nil
}

// recover delivers a result of an earlier process. If its leader is no longer configured, the first leader gets it.
func (m *Member) recover(name string, to recipient, attempt wire.GUID, payload []byte) {
	m.mu.Lock()
	d := m.addDelivery(to, attempt, payload, 0)
	m.mu.Unlock()
	if d.name() == name {
		m.send(d)
		return
	}
	m.deliver(d)
	m.outbox.Remove(name)
}
