package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Watch asks for the right to look for silent workers, which one worker has at a
// time, and keeps it for the time of ttl if it is this one's; with a ttl of 0 it
// leaves that to others. If it is another's, free is how long that one's still lasts.
// The clock is the server's, by which claims end.
func (s *Store) Watch(ctx context.Context, ttl time.Duration) (mine bool, clock time.Time, free time.Duration, err error) {
	got, err := s.run(ctx, "watch the fleet", watchScript, []string{watchKey}, s.ID, ttl.Milliseconds())
	if err != nil {
		return false, time.Time{}, 0, err
	}
	return got.Number(0) == 1, time.UnixMilli(got.Number(1)), time.Duration(got.Number(2)) * time.Millisecond, nil
}

// The marks of the scripts on a token: see job.lua.
const (
	lapsedMark = "!" // before a token: taken away from a silent worker
	noToken    = "-" // instead of one
)

// Lapsed returns the claims that are over and were not given back, as far as
// their lease can be handed back by others and was not yet; and how long the next
// claim holds unless it is prolonged, an hour if there is none. It reads the index of
// running jobs in pages of 1000, so it costs what runs, and not what there is.
func (s *Store) Lapsed(ctx context.Context) (lapsed []jobs.Claim, next time.Duration, err error) {
	next = time.Hour
	for page, err := range redisdb.Members(ctx, s.rdb, stateIndexKey(jobs.Running)) {
		if err != nil {
			return nil, 0, unavailable("read running jobs", err)
		}
		claims, err := s.claims(ctx, page, nil, "token", "until", "ack", "queue")
		if err != nil {
			return nil, 0, unavailable("read claims", err)
		}
		for i, c := range claims {
			switch {
			case c.token == "", c.token == noToken, c.ack == "":
			case c.left > 0:
				next = min(next, c.left)
			default:
				lapsed = append(lapsed, jobs.Claim{Job: jobs.ID(page[i]), Token: strings.TrimPrefix(c.token, lapsedMark), Ack: c.ack, Queue: c.queue})
			}
		}
	}
	return lapsed, next, nil
}

// Lapse takes a claim that Lapsed has returned away from its worker, which can write
// nothing more under it. It reports false, and changes nothing, if the claim was
// prolonged, given back or granted to somebody else in the meantime. Call it again
// with handed once the lease is handed back: Lapsed does not return the claim then.
func (s *Store) Lapse(ctx context.Context, c jobs.Claim, handed bool) (bool, error) {
	got, err := s.run(ctx, fmt.Sprintf("take the claim of job %s", c.Job), lapseScript, []string{claimKey(c.Job)}, c.Token, handed)
	return got.Number(0) == 1, err
}
