package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	GPUs    []int  `json:"gpus,omitempty"` // indices of those that its jobs may use
	// ClockOffset is by how many ms its clock is ahead of Redis's, as its last report but one has shown; nil if that
	// is not known.
	ClockOffset *int64 `json:"clock_offset_ms,omitempty"`

	// Seen is when it last said so and Silent how long ago that is, both by Redis's
	// clock.
	Seen   time.Time     `json:"-"`
	Silent time.Duration `json:"-"`
	// Drained is since when it is told to take no jobs: see Store.DrainWorker. Zero if it is not.
	Drained time.Time `json:"-"`
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
	clock, all, drained := pipe.Time(ctx), pipe.HGetAll(ctx, workersKey), pipe.HGetAll(ctx, drainedKey)
	return func() []Worker {
		found := []Worker{}
		for id, text := range all.Val() {
			at, doc, _ := strings.Cut(text, " ")
			ms, err := strconv.ParseInt(at, 10, 64)
			var w Worker
			if err != nil || json.Unmarshal([]byte(doc), &w) != nil {
				continue // somebody else has written here
			}
			w.ID, w.Seen, w.Drained = id, time.UnixMilli(ms).UTC(), momentOf(drained.Val()[id])
			if w.Silent = max(0, clock.Val().Sub(w.Seen)); w.Silent <= forgetAfter {
				found = append(found, w)
			}
		}
		slices.SortFunc(found, func(a, b Worker) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
		return found
	}
}

// ErrNoWorker means that there is no such worker.
var ErrNoWorker = errors.New("no such worker")

// DrainWorker asks one worker to take no more jobs, or to take them again, without ending. It follows with its next
// report of itself, within 10 s, and so does no other process of the same name. id is [Worker].ID; the error wraps [ErrNoWorker].
func (s *Store) DrainWorker(ctx context.Context, id string, on bool) error {
	what := fmt.Sprintf("drain worker %.80q", id)
	got, err := s.run(ctx, what, drainScript, []string{workersKey, drainedKey}, id, on)
	if err == nil && got.Number(0) == 0 {
		return fmt.Errorf("%s: %w", what, ErrNoWorker)
	}
	return err
}
