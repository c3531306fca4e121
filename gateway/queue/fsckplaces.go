package queue

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// index: each entry has its lease, which ends when the entry says.
func (f *fsck) index(ctx context.Context) error {
	return f.walkSet(ctx, indexKey, func(ids []string) error {
		f.report.Leased += len(ids)
		leases := make([]*redis.IntCmd, len(ids))
		err := f.pipe(ctx, func(ctx context.Context, p redis.Pipeliner) {
			for i, id := range ids {
				leases[i] = p.Exists(ctx, leaseKey(jobs.ID(id)))
			}
		})
		for i, id := range ids {
			if err == nil && leases[i].Val() == 0 {
				err = f.suspect(ctx, id, look{})
			}
		}
		return err
	})
}

// delay: what waits to run again is queued.
func (f *fsck) delay(ctx context.Context) error {
	return f.walkSet(ctx, delayKey, func(ids []string) error {
		f.report.Delayed += len(ids)
		for _, id := range ids {
			f.waiting[f.hash(id)] = struct{}{}
		}
		return f.whereNot(ctx, ids, "queued", func(id, _ string) error { return f.suspect(ctx, id, look{}) })
	})
}

// queue: what is in the queue is queued, and not in the delay set.
func (f *fsck) queue(ctx context.Context) error {
	return f.walkList(ctx, queueKey, func(ids []string) error {
		f.report.Queued += len(ids)
		for _, id := range ids {
			if f.waits(id) {
				f.later(id, look{queue: "all"}, "")
			}
			f.waiting[f.hash(id)] = struct{}{}
		}
		return f.whereNot(ctx, ids, "queued", func(id, state string) error {
			kind := ""
			if state != "" {
				kind = staleEntry
			}
			f.later(id, look{queue: "all"}, kind)
			return nil
		})
	})
}

// dead: a dead letter has failed, and is there once.
func (f *fsck) dead(ctx context.Context) error {
	letters := map[uint64]struct{}{}
	return f.walkList(ctx, dlqKey, func(ids []string) error {
		f.report.Dead += len(ids)
		for _, id := range ids {
			if _, twice := letters[f.hash(id)]; twice {
				f.later(id, look{dead: true}, "")
			}
			letters[f.hash(id)] = struct{}{}
		}
		return f.whereNot(ctx, ids, "failed", func(id, state string) error {
			kind := ""
			if state == "" {
				kind = expiredLetter
			}
			f.later(id, look{dead: true}, kind)
			return nil
		})
	})
}

// lists: what is in the list of a state is in that state.
func (f *fsck) lists(ctx context.Context) error {
	for _, state := range States {
		err := f.walkSet(ctx, listKey(state), func(ids []string) error {
			seen, err := f.states(ctx, ids)
			for i, id := range ids {
				if err == nil && listState(seen[i].Val()) != state {
					err = f.suspect(ctx, id, look{})
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// states reads status and detail of jobs.
func (f *fsck) states(ctx context.Context, ids []string) ([]*redis.SliceCmd, error) {
	states := make([]*redis.SliceCmd, len(ids))
	err := f.pipe(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, id := range ids {
			states[i] = p.HMGet(ctx, statusKey(jobs.ID(id)), "status", "detail")
		}
	})
	return states, err
}

func statusOf(state *redis.SliceCmd) string { return redisdb.Reply(state.Val()).Text(0) }

// listState returns the state by which a job of this status and detail is listed.
func listState(values []any) string {
	a := redisdb.Reply(values)
	return (&Job{Status: a.Text(0), Detail: a.Text(1)}).State()
}

// people returns the word of people for a state, and one that is unknown as it is.
func people(state string) string {
	switch state {
	case Started:
		return jobs.Running.String()
	case Finished:
		return jobs.Succeeded.String()
	}
	return state
}

// whereNot calls suspect for those whose status is not want.
func (f *fsck) whereNot(ctx context.Context, ids []string, want string, suspect func(id, state string) error) error {
	seen, err := f.states(ctx, ids)
	for i, id := range ids {
		if state := statusOf(seen[i]); err == nil && state != want {
			err = suspect(id, state)
		}
	}
	return err
}
