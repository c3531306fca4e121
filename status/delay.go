package status

import (
	"context"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// maxPromoted is how many jobs one call of Promote returns at most.
const maxPromoted = 500

// Promoted is what a call of [Store.Promote] found.
type Promoted struct {
	Mine bool          // this process is the one that publishes
	Due  []jobs.ID     // jobs whose time has come, the most overdue first
	Next time.Duration // until the next job is due, 0 for one that is; negative for none
}

// Promote returns delayed jobs whose time has come, by Redis's clock, if no other process has asked
// for that within hold. Their messages are to be published; then they are done, and are
// passed to the next call. A job that is not done comes again, also to another process once hold is over: its
// message may be published twice, which does no harm. It is one round trip.
func (s *Store) Promote(ctx context.Context, hold time.Duration, done []jobs.ID) (Promoted, error) {
	args := []any{s.ID, hold.Milliseconds(), maxPromoted}
	for _, id := range done {
		args = append(args, string(id))
	}
	got, err := s.run(ctx, "look for delayed jobs", promoteScript, []string{promoterKey, delayedKey}, args...)
	if err != nil {
		return Promoted{}, err
	}
	p := Promoted{Mine: got.Number(0) == 1, Next: time.Duration(got.Number(1)) * time.Millisecond}
	for i := 2; got.Text(i) != ""; i++ {
		p.Due = append(p.Due, jobs.ID(got.Text(i)))
	}
	return p, nil
}

// Delayed returns how many jobs wait for their time.
func (s *Store) Delayed(ctx context.Context) (int, error) {
	n, err := s.rdb.ZCard(ctx, delayedKey).Result()
	return int(n), unavailable("count delayed jobs", err)
}

// Resign lets another process publish delayed jobs at once.
func (s *Store) Resign(ctx context.Context) error {
	_, err := s.run(ctx, "leave delayed jobs to others", resignScript, []string{promoterKey}, s.ID)
	return err
}
