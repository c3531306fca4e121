package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/batchfleet/batchfleet/grid/link"
	"github.com/batchfleet/batchfleet/grid/wire"
)

// step is one event of a history.
type step struct {
	what   string
	leader int
	n      int
}

func (s step) String() string { return fmt.Sprintf("%s %d %d", s.what, s.leader, s.n) }

var steps = []string{
	"submit", "submit", "submit", "pass", "pass", "pass", "finish", "finish", "repeat", "drop", "crash", "back", "back", "restart empty", "busy", "free", "hang", "unhang",
}

var passes = []time.Duration{0, 100 * time.Millisecond, time.Second, 5 * time.Second, 11 * time.Second, 45 * time.Second}

// TestP8RandomHistories plays random histories to a client. At the end all leaders are
// there, and each job must have ended with one result.
func TestP8RandomHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) step {
			return step{rapid.SampledFrom(steps).Draw(t, "what"), rapid.IntRange(0, 2).Draw(t, "leader"), rapid.IntRange(0, 5).Draw(t, "n")}
		})
		history := rapid.SliceOfN(one, 1, 80).Draw(rt, "history")
		original := rapid.SliceOfN(rapid.Bool(), 3, 3).Draw(rt, "original protocol")
		desired := rapid.IntRange(1, 8).Draw(rt, "desired")
		refusals := rapid.IntRange(0, 2).Draw(rt, "refusals of OnResult")
		var wrong []string
		bubble(t, func(t *testing.T) { wrong = play(t, history, original, desired, refusals) })
		for _, w := range wrong {
			rt.Error(w)
		}
	})
}

// model is a network of leaders that keep jobs as leaders do.
type model struct {
	*fakeNet
	keepers []*keeper
	jobs    []*Job
	log     []arrival
	wrong   []string

	tellMu  sync.Mutex
	told    map[wire.GUID]int // how often OnResult was told
	taken   map[wire.GUID]int // how often it has taken the result
	refuses int
}

// arrival is a job as it has come to a leader.
type arrival struct {
	id      wire.GUID
	keeper  *keeper
	conn    *tracked
	at      time.Time
	refused bool
}

// tracked is the client's end of a connection.
type tracked struct {
	net.Conn
	mu     sync.Mutex
	closed time.Time
}

func (c *tracked) Close() error {
	c.mu.Lock()
	if c.closed.IsZero() {
		c.closed = time.Now()
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// lostBefore reports whether the client has lost the connection by then.
func (c *tracked) lostBefore(then time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed.IsZero() && !c.closed.After(then)
}

// keeper is a leader that knows its jobs until it restarts empty. The mutex of the network guards it.
type keeper struct {
	*fakeLeader
	m         *model
	ends      map[*link.Conn]*tracked
	open      []wire.GUID
	results   map[wire.GUID]bool // finished; true once acknowledged
	canceled  map[wire.GUID]int
	busy, run bool
	hung      chan struct{} // nil, or closed when it goes on
}

func play(t *testing.T, history []step, original []bool, desired, refusals int) []string {
	t.Helper()
	m := &model{fakeNet: newNet(t, "0:1", "1:1", "2:1"), told: map[wire.GUID]int{}, taken: map[wire.GUID]int{}, refuses: refusals}
	for i, address := range slices.Sorted(maps.Keys(m.leaders)) {
		k := &keeper{fakeLeader: m.leaders[address], m: m, results: map[wire.GUID]bool{}, canceled: map[wire.GUID]int{}, ends: map[*link.Conn]*tracked{}}
		if original[i] {
			k.features = nil
		}
		k.reply = k.answer
		m.keepers = append(m.keepers, k)
	}
	c := m.client(t, Config{Desired: desired, OnResult: m.tell})
	c.cfg.Dial = m.dial
	m.run(t, c)
	for _, s := range history {
		m.do(t, c, s)
		after(0)
	}
	for i := range m.keepers {
		for _, what := range []string{"unhang", "free", "back", "run"} {
			m.do(t, c, step{what, i, 0})
		}
	}
	after(10 * time.Minute)
	wrong := append(m.unfinished(), m.twice()...)
	m.mu.Lock()
	defer m.mu.Unlock()
	return append(wrong, m.wrong...)
}

func (m *model) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := m.fakeNet.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	end := &tracked{Conn: conn}
	for _, k := range m.keepers {
		if k.address == address {
			k.ends[k.conns[len(k.conns)-1]] = end
		}
	}
	return end, nil
}

func (m *model) tell(r Result) error {
	m.tellMu.Lock()
	defer m.tellMu.Unlock()
	if m.told[r.JobID]++; m.told[r.JobID] <= m.refuses {
		return errors.New("disk full")
	}
	m.taken[r.JobID]++
	return nil
}

// do does one step.
func (m *model) do(t *testing.T, c *Multi, s step) {
	t.Helper()
	k := m.keepers[s.leader]
	switch s.what {
	case "submit":
		for range s.n {
			if len(m.jobs) == leastWindow {
				return // it would wait for room
			}
			m.jobs = append(m.jobs, submit(t, c))
		}
	case "pass":
		after(passes[s.n])
	case "drop":
		k.drop()
	case "crash":
		k.crash()
	case "back":
		k.back()
	case "restart empty":
		k.crash()
		m.mu.Lock()
		k.open = nil
		clear(k.results)
		m.mu.Unlock()
		k.back()
	case "finish":
		m.mu.Lock()
		defer m.mu.Unlock()
		for range min(s.n, len(k.open)) {
			k.finish(k.open[0])
		}
	case "repeat":
		m.mu.Lock()
		defer m.mu.Unlock()
		for id := range k.results {
			k.deliver(id)
		}
	default:
		m.mu.Lock()
		defer m.mu.Unlock()
		k.behave(s.what)
	}
}

// behave changes how the leader answers from now on.
func (k *keeper) behave(how string) {
	switch how {
	case "busy", "free":
		k.busy = how == "busy"
	case "hang":
		if k.hung == nil {
			k.hung = make(chan struct{})
		}
	case "unhang":
		if k.hung != nil {
			close(k.hung)
			k.hung = nil
		}
	case "run":
		k.run = true
		for len(k.open) > 0 {
			k.finish(k.open[0])
		}
	}
}

// answer takes a frame from the client.
func (k *keeper) answer(_ *fakeLeader, c *link.Conn, f wire.Frame) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	for hung := k.hung; hung != nil; hung = k.hung {
		k.net.mu.Unlock()
		<-hung
		k.net.mu.Lock()
	}
	if k.features == nil && f.Type > wire.HelloWorker {
		k.m.wrong = append(k.m.wrong, fmt.Sprintf("leader %s, of the original protocol, got %s", k.address, f.Type))
	}
	switch f.Type {
	case wire.HelloClient:
		for id, acked := range k.results {
			if !acked {
				_ = c.Send(resultOf(id, k.address))
			}
		}
	case wire.SubmitJob:
		k.submitted(c, f.MsgID)
	case wire.ResultAck:
		ids, _ := wire.GUIDs(f.Payload)
		for _, id := range ids {
			k.results[id] = true
		}
	case wire.Cancel:
		if k.canceled[f.CorrID]++; k.canceled[f.CorrID] > 1 {
			k.m.wrong = append(k.m.wrong, fmt.Sprintf("leader %s got more than one cancellation of job %s", k.address, f.CorrID))
		}
		if i := slices.Index(k.open, f.CorrID); i >= 0 {
			k.open = slices.Delete(k.open, i, i+1)
		}
	default:
	}
}

func (k *keeper) submitted(c *link.Conn, id wire.GUID) {
	_, finished := k.results[id]
	refused := k.busy && !finished && !slices.Contains(k.open, id) && k.features != nil
	k.m.log = append(k.m.log, arrival{id, k, k.ends[c], time.Now(), refused})
	switch {
	case finished:
		_ = c.Send(resultOf(id, k.address))
	case refused:
		_ = c.Send(errorFrame(id, wire.CodeBusy))
	default:
		if !slices.Contains(k.open, id) {
			k.open = append(k.open, id)
		}
		if k.features != nil {
			_ = c.Send(wire.Frame{Type: wire.SubmitAck, Payload: wire.AppendGUIDs(nil, id)})
		}
		if k.run {
			k.finish(id)
		}
	}
}

// finish ends a job that is open.
func (k *keeper) finish(id wire.GUID) {
	i := slices.Index(k.open, id)
	k.open = slices.Delete(k.open, i, i+1)
	k.results[id] = false
	k.deliver(id)
}

// deliver sends a result, if the client is there.
func (k *keeper) deliver(id wire.GUID) {
	if len(k.conns) > 0 {
		_ = k.conns[len(k.conns)-1].Send(resultOf(id, k.address))
	}
}

// unfinished returns what is wrong with the ends of jobs.
func (m *model) unfinished() (wrong []string) {
	m.tellMu.Lock()
	defer m.tellMu.Unlock()
	for i, j := range m.jobs {
		select {
		case <-j.Done():
			if _, err := j.Wait(context.Background()); err != nil {
				wrong = append(wrong, fmt.Sprintf("job %d has ended with %v", i, err))
			}
		default:
			wrong = append(wrong, fmt.Sprintf("job %d has not ended", i))
		}
		if m.taken[j.ID] != 1 {
			wrong = append(wrong, fmt.Sprintf("OnResult has taken %d results of job %d", m.taken[j.ID], i))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keepers {
		for id, acked := range k.results {
			if m.taken[id] == 0 && acked {
				wrong = append(wrong, fmt.Sprintf("leader %s got an acknowledgment of job %s before its result was taken", k.address, id))
			}
		}
	}
	return wrong
}

// twice returns the jobs that were with two leaders within the grace.
func (m *model) twice() (wrong []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, a := range m.log {
		for _, b := range m.log[i+1:] {
			if a.id != b.id || a.keeper == b.keeper || m.refusedBefore(a, b.at) || m.refusedBefore(b, a.at) ||
				a.conn.lostBefore(b.at.Add(-DefaultGrace)) || b.conn.lostBefore(a.at.Add(-DefaultGrace)) {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("job %s came to leader %s at %s and to %s at %s", a.id, a.keeper.address, a.at, b.keeper.address, b.at))
		}
	}
	return wrong
}

// refusedBefore reports whether the leader has refused the job of an arrival since, or at once.
func (m *model) refusedBefore(a arrival, then time.Time) bool {
	last := a
	for _, b := range m.log {
		if b.id == a.id && b.keeper == a.keeper && !b.at.Before(last.at) && !b.at.After(then) {
			last = b
		}
	}
	return last.refused
}
