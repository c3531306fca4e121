package status

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Member is a worker of this process, as Redis lists it.
type Member struct {
	s     *Store
	first bool // forgets others

	folded time.Time // when it has last added up old hours

	mu     sync.Mutex
	self   Worker
	drain  bool // as the last report was answered
	paused []jobs.Kind
}

// Member returns the worker that claims jobs through this store.
func (s *Store) Member(self Worker) *Member {
	self.ID, self.Name, self.Started = s.ID, s.Worker, time.Now().UTC()
	return &Member{s: s, self: self, first: true}
}

// SetKinds sets which kinds the worker runs from now on. The next Pulse writes them to Redis.
func (m *Member) SetKinds(kinds []jobs.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Kinds = kinds
}

// Pulse says that the worker lives, in one command, and why it takes no jobs; unready is empty
// if it does. It is not called concurrently.
func (m *Member) Pulse(ctx context.Context, inHand int, draining bool, unready string) error {
	m.mu.Lock()
	m.self.Jobs, m.self.Draining, m.self.Unready = inHand, draining, unready
	text, err := json.Marshal(m.self)
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("describe worker: %w", err)
	}
	forget := ""
	if m.first {
		forget = strconv.FormatInt(forgetAfter.Milliseconds(), 10)
	}
	asked := time.Now()
	got, err := m.s.run(ctx, "write heartbeat", pulseScript, []string{workerKey(m.self.ID), workersKey, pausedKey, drainedKey},
		m.self.ID, text, int(SilentAfter/time.Second), forget)
	if err != nil {
		return err
	}
	m.first = false
	m.learn(got, asked, time.Now())
	if time.Since(m.folded) > time.Hour {
		m.folded = time.Now()
		_ = m.s.foldFlow(ctx) // another worker does it, or this one in an hour
	}
	return nil
}

// maxTrip is how long a report may take for the clocks to be compared by it.
const maxTrip = time.Second

// learn reads the answer to a report.
func (m *Member) learn(got redisdb.Reply, asked, answered time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drain, m.paused = got.Number(1) == 1, nil
	for i := 2; i < len(got); i++ {
		m.paused = append(m.paused, jobs.Kind(got.Text(i)))
	}
	if trip := answered.Sub(asked); trip <= maxTrip {
		m.self.ClockOffset = new(asked.Add(trip/2).UnixMilli() - got.Number(0))
	}
}

// Orders returns what the answer to the last report asked for: whether the worker shall take no jobs, and of which kinds
// it shall begin none.
func (m *Member) Orders() (drain bool, paused []jobs.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drain, m.paused
}

// Leave says that the worker ends. One that does not is shown as silent for an hour.
func (m *Member) Leave(ctx context.Context) error {
	pipe := m.s.rdb.Pipeline()
	pipe.Del(ctx, workerKey(m.self.ID))
	pipe.HDel(ctx, workersKey, m.self.ID)
	pipe.HDel(ctx, drainedKey, m.self.ID)
	_, err := pipe.Exec(ctx)
	return unavailable("remove the worker from the registry", err)
}
