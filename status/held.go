package status

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// claim is what is on record of who runs a job, as far as it was read.
type claim struct {
	token, ack, queue string
	left              time.Duration // how long it holds; negative once it is over, 0 if there is none
	silent            time.Duration // since its worker last said something; 0 if that is not known
	now               time.Time     // when it was read, by Redis's clock
	err               error         // why nothing could be read: there is something else at its key
}

// claims reads when the workers of jobs were last heard of, the named fields of their
// claims and, in the same round trip and after each, what beside adds; that may be nil.
// Each field costs a list of jobs time, so callers name those that they need; left needs
// heldFields.
func (s *Store) claims(ctx context.Context, members []string, beside func(pipe redis.Pipeliner, i int, id jobs.ID), fields ...string) ([]claim, error) {
	values, found := make([]*redis.SliceCmd, len(members)), make([]claim, len(members))
	if len(members) == 0 {
		return found, nil
	}
	pipe := s.rdb.Pipeline()
	clock, fields := pipe.Time(ctx), append([]string{"seen"}, fields...)
	for i, m := range members {
		values[i] = pipe.HMGet(ctx, claimKey(jobs.ID(m)), fields...)
		if beside != nil {
			beside(pipe, i, jobs.ID(m))
		}
	}
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return nil, err
	}
	for i := range members {
		c := &found[i]
		c.now, c.err = clock.Val(), values[i].Err()
		for k, field := range fields {
			text := redisdb.Reply(values[i].Val()).Text(k)
			switch ms, err := strconv.ParseInt(text, 10, 64); {
			case field == "token":
				c.token = text
			case field == "ack":
				c.ack = text
			case field == "queue":
				c.queue = text
			case err == nil && field == "seen":
				c.silent = c.now.Sub(time.UnixMilli(ms))
			case err == nil && field == "until" && c.token != "":
				c.left = time.UnixMilli(ms).Sub(c.now)
			}
		}
	}
	return found, nil
}

// heldFields are those that tell whether a claim holds, in the order in which claims
// needs them.
var heldFields = []string{"token", "until"}

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
		seen, err := s.read(ctx, page, heldFields...)
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
