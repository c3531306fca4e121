package status

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// claim is what is on record of who runs a job.
type claim struct {
	token, ack, queue string
	left              time.Duration // how long it holds; negative once it is over, 0 if there is none
	silent            time.Duration // since its worker last said something; 0 if that is not known
	now               time.Time     // when it was read, by Redis's clock
	err               error         // why nothing could be read: there is something else at its key
}

// claims reads the claims of jobs and, in the same round trip and after each, what
// beside adds; that may be nil.
func (s *Store) claims(ctx context.Context, members []string, beside func(pipe redis.Pipeliner, i int, id jobs.ID)) ([]claim, error) {
	fields, found := make([]*redis.SliceCmd, len(members)), make([]claim, len(members))
	if len(members) == 0 {
		return found, nil
	}
	pipe := s.rdb.Pipeline()
	clock := pipe.Time(ctx)
	for i, m := range members {
		fields[i] = pipe.HMGet(ctx, claimKey(jobs.ID(m)), "token", "until", "seen", "ack", "queue")
		if beside != nil {
			beside(pipe, i, jobs.ID(m))
		}
	}
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return nil, err
	}
	for i := range members {
		f := redisdb.Reply(fields[i].Val())
		c := claim{token: f.Text(0), ack: f.Text(3), queue: f.Text(4), now: clock.Val(), err: fields[i].Err()}
		if until, err := strconv.ParseInt(f.Text(1), 10, 64); err == nil && c.token != "" {
			c.left = time.UnixMilli(until).Sub(c.now)
		}
		if seen, err := strconv.ParseInt(f.Text(2), 10, 64); err == nil {
			c.silent = c.now.Sub(time.UnixMilli(seen))
		}
		found[i] = c
	}
	return found, nil
}

// Holder is a job that is held by a live claim.
type Holder struct {
	Job    jobs.ID
	Worker string        // who holds it
	Left   time.Duration // how long the claim still holds
}

// MaxHeld is how many holders one call of Held returns at most.
const MaxHeld = 10_000

// Held returns the running jobs whose claim is live, in no order: not those whose
// worker ended without a word, once their claim is over. It reads the index of
// running jobs in pages of 1000, and repairs it where it is wrong; a job that begins
// while it reads may be missed.
func (s *Store) Held(ctx context.Context) ([]Holder, error) {
	held, known := []Holder{}, map[string]bool{}
	for page, err := range redisdb.Members(ctx, s.rdb, stateIndexKey(jobs.Running)) {
		if err != nil {
			return nil, unavailable("read running jobs", err)
		}
		seen, err := s.read(ctx, page)
		if err != nil {
			return nil, err
		}
		var wrong []string
		for i, m := range page {
			switch r := seen[i]; {
			case r.err != nil:
				return nil, unavailable("read claim of job "+m, r.err)
			case r.left > 0 && !known[m] && len(held) < MaxHeld:
				known[m] = true
				held = append(held, Holder{jobs.ID(m), r.Detail.Worker, r.left})
			case r.left > 0:
			case r.found == nothing, r.found == readable && r.State() != jobs.Running:
				wrong = append(wrong, m)
			}
		}
		_ = s.repair(ctx, wrong)
		if len(held) == MaxHeld {
			break
		}
	}
	return held, nil
}
