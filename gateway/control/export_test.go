package control

import (
	"context"
	"time"
)

// What tests of the reaper need, whose first round comes one Period after Run began.
var (
	Round  = (*Control).round
	Rounds = (*Control).rounds
	Pause  = (*Control).pause
	Reap   = (*Control).reap

	Promote = (*Control).promote
)

// StandStill makes it seem that neither the gateway nor its Redis did anything for d.
func StandStill(c *Control, d time.Duration) {
	c.still.mu.Lock()
	defer c.still.mu.Unlock()
	c.still.seen, c.still.until = c.still.seen.Add(-d), c.still.until.Add(-d)
}

// ClockStep is by how much the clock of Redis may be set back.
const ClockStep = clockStep

// LargeOfOne is how many large bodies a worker may have on their way.
const LargeOfOne = largeOfOne

// ListenedFor returns of how many jobs it is known which heartbeats wait.
func ListenedFor(c *Control) int {
	c.heartbeats.mu.Lock()
	defer c.heartbeats.mu.Unlock()
	return len(c.heartbeats.of)
}

// TakeRoom takes the room for all large bodies, until it is given back.
func TakeRoom(ctx context.Context, c *Control) (giveBack func(), err error) {
	var places []func()
	for range largeBodies {
		release, err := c.large.take(ctx, string(rune('a'+len(places))), 0)
		if err != nil {
			return nil, err
		}
		places = append(places, release)
	}
	return func() {
		for _, release := range places {
			release()
		}
	}, nil
}

// Clean deletes the files that no job needs any more, however new they are.
func Clean(ctx context.Context, c *Control) (deleted int, err error) {
	for _, prefix := range []string{uploadsPrefix, artifactsPrefix, checkpointsPrefix} {
		n, err := c.cleanObjects(ctx, prefix, time.Now().Add(time.Hour))
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}

// Sweep deletes parts of artifacts to which nothing was added for a while.
func (s *Spool) Sweep(older time.Duration) (int, error) { return s.sweep(older) }
