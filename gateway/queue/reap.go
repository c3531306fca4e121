package queue

import (
	"context"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// promoteLimit is how many jobs one script moves out of the delay set, and
// reapLimit how many leases one script takes back: Redis serves no other call
// meanwhile.
const (
	promoteLimit = 100
	reapLimit    = 100
)

// Reaped is a lease that was taken back.
type Reaped struct {
	Job    jobs.ID
	Worker string
	// Became is "delayed", "queued" when it is next without a wait, "dead" or
	// "canceled", or "orphan" for an entry of the index without a lease, which was
	// dropped, or "foreign" when somebody else has written to a key of the job, which
	// is left as it is and listed among the dead letters.
	Became  string
	Code    string // why: LEASE_EXPIRED, WORKER_REVOKED, JOB_TIMEOUT or CANCELED; empty for an orphan
	Retries int    // runs that have been counted so far; 0 of a canceled job
	Kind    jobs.Kind
}

// Reap takes back all leases that have ended, and returns those. It may run in
// several gateways at once.
func (q *Queue) Reap(ctx context.Context) (reaped []Reaped, err error) {
	// Read the clock once: if the process is frozen during the loop, that time must
	// not make leases expire.
	now := q.Now()
	for {
		args := []any{
			unix(now.Add(-q.Skew)), reapLimit, q.ResultTTL.Milliseconds(), text(now), q.LateTTL.Milliseconds(),
			seconds(q.JobTimeout), strconv.Itoa(maxUncounted),
		}
		a, err := q.run(ctx, "reap leases", reapScript, []string{indexKey, delayKey, dlqKey}, append(args, q.runAts(now)...)...)
		if err != nil {
			return reaped, err
		}
		for i := 0; i+5 < len(a); i += 6 {
			r := Reaped{
				Job: jobs.ID(a.Text(i)), Became: a.Text(i + 1), Worker: a.Text(i + 2), Code: a.Text(i + 3), Retries: int(a.Number(i + 4)),
				Kind: plain(a.Text(i + 5)),
			}
			if r.Became != "extended" {
				reaped = append(reaped, r)
			}
		}
		if len(a) < 6*reapLimit {
			return reaped, nil
		}
	}
}

// NextEnd returns when the lease that ends first does, by the index; zero if there
// is none.
func (q *Queue) NextEnd(ctx context.Context) (time.Time, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	first, err := q.rdb.ZRangeWithScores(ctx, indexKey, 0, 0).Result()
	if len(first) == 0 {
		return time.Time{}, unavailable("read the next end of a lease", err)
	}
	return fromUnix(first[0].Score), nil
}

// Promote is [Queue.PromoteKinds], and returns how many jobs were moved.
func (q *Queue) Promote(ctx context.Context) (moved int, err error) {
	kinds, err := q.PromoteKinds(ctx)
	for _, n := range kinds {
		moved += n
	}
	return moved, err
}

// PromoteKinds moves to the queues what the delay set holds for now, and returns how
// many jobs of each kind that were.
func (q *Queue) PromoteKinds(ctx context.Context) (moved map[jobs.Kind]int, err error) {
	moved = map[jobs.Kind]int{}
	for {
		a, err := q.run(ctx, "promote jobs", promoteScript, []string{queueKey, delayKey}, unix(q.Now()), promoteLimit)
		if err != nil {
			return moved, err
		}
		now := 0
		for i := 0; i+1 < len(a); i += 2 {
			now += int(a.Number(i + 1))
			moved[plain(a.Text(i))] += int(a.Number(i + 1))
		}
		if now < promoteLimit {
			return moved, nil
		}
	}
}

// ForgetRevoked drops revoked tokens whose record has expired, because members
// of a set do not expire by themselves.
func (q *Queue) ForgetRevoked(ctx context.Context) (dropped int, err error) {
	for cursor := "0"; ; {
		a, err := q.run(ctx, "forget revoked tokens", forgetScript, []string{revokedKey}, cursor, strconv.Itoa(1000))
		if err != nil {
			return dropped, err
		}
		dropped += int(a.Number(1))
		if cursor = a.Text(0); cursor == "0" {
			return dropped, nil
		}
	}
}
