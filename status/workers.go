package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// SilentAfter is how long after its last report a worker counts as silent.
const SilentAfter = jobs.ClaimHold

// forgetAfter is how long a silent worker is shown.
const forgetAfter = time.Hour

// Worker is one of a fleet, as it says itself every 5 s, and within a second after the number
// of its jobs or whether it takes jobs has changed.
type Worker struct {
	ID       string      `json:"id"` // of the process
	Name     string      `json:"name"`
	Host     string      `json:"host"`
	PID      int         `json:"pid"`
	Version  string      `json:"version"`
	Kinds    []jobs.Kind `json:"kinds"`
	Slots    int         `json:"slots"`
	Jobs     int         `json:"jobs"` // in hand
	Started  time.Time   `json:"started"`
	Draining bool        `json:"draining"` // takes no more jobs
	// Unready is why the worker takes no jobs now: one of its checks fails. Empty while they
	// pass, and from an older worker, which does not say.
	Unready string `json:"unready,omitempty"`

	// Seen is when it last said so and Silent how long ago that is, both by Redis's
	// clock.
	Seen   time.Time     `json:"-"`
	Silent time.Duration `json:"-"`
}

// State is what a worker does, in a word: silent, draining, unready, working or idle.
func (w Worker) State() string {
	switch {
	case w.Silent > SilentAfter:
		return "silent"
	case w.Draining:
		return "draining"
	case w.Unready != "":
		return "unready"
	case w.Jobs > 0:
		return "working"
	default:
		return "idle"
	}
}

// Member is a worker of this process, as Redis lists it.
type Member struct {
	s     *Store
	first bool // forgets others

	folded time.Time // when it has last added up old hours

	mu   sync.Mutex
	self Worker
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
	_, err = m.s.run(ctx, "write heartbeat", pulseScript, []string{workerKey(m.self.ID), workersKey},
		m.self.ID, text, int(SilentAfter/time.Second), forget)
	m.first = m.first && err != nil
	if err == nil && time.Since(m.folded) > time.Hour {
		m.folded = time.Now()
		_ = m.s.foldFlow(ctx) // another worker does it, or this one in an hour
	}
	return err
}

// Leave says that the worker ends. One that does not is shown as silent for an hour.
func (m *Member) Leave(ctx context.Context) error {
	pipe := m.s.rdb.Pipeline()
	pipe.Del(ctx, workerKey(m.self.ID))
	pipe.HDel(ctx, workersKey, m.self.ID)
	_, err := pipe.Exec(ctx)
	return unavailable("remove the worker from the registry", err)
}

// Workers returns the workers of the fleet by name: those that live, and those that
// fell silent within the last hour.
func (s *Store) Workers(ctx context.Context) ([]Worker, error) {
	pipe := s.rdb.Pipeline()
	workers := listWorkers(ctx, pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable("list workers", err)
	}
	return workers(), nil
}

// listWorkers adds what Workers reads to a round trip. What it returns reads the answer.
func listWorkers(ctx context.Context, pipe redis.Pipeliner) func() []Worker {
	clock, all := pipe.Time(ctx), pipe.HGetAll(ctx, workersKey)
	return func() []Worker {
		found := []Worker{}
		for id, text := range all.Val() {
			at, doc, _ := strings.Cut(text, " ")
			ms, err := strconv.ParseInt(at, 10, 64)
			var w Worker
			if err != nil || json.Unmarshal([]byte(doc), &w) != nil {
				continue // somebody else has written here
			}
			w.ID, w.Seen = id, time.UnixMilli(ms).UTC()
			if w.Silent = max(0, clock.Val().Sub(w.Seen)); w.Silent <= forgetAfter {
				found = append(found, w)
			}
		}
		slices.SortFunc(found, func(a, b Worker) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
		return found
	}
}
