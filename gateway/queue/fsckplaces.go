package queue

import (
	"cmp"
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

// eachKind calls walk for kind zpe and for those in a set.
func (f *fsck) eachKind(ctx context.Context, set string, walk func(context.Context, jobs.Kind) error) error {
	var kinds []jobs.Kind
	err := f.call(ctx, func(ctx context.Context) (err error) {
		kinds, err = f.q.kindsIn(ctx, set)
		return err
	})
	for _, kind := range append([]jobs.Kind{""}, kinds...) {
		if err == nil {
			err = walk(ctx, kind)
		}
	}
	return err
}

func (f *fsck) queue(ctx context.Context) error { return f.eachKind(ctx, queueKindsKey, f.queueOf) }

// queueOf: what is in the queue of a kind is queued and of that kind, and not in the delay set.
func (f *fsck) queueOf(ctx context.Context, kind jobs.Kind) error {
	return f.walkList(ctx, queueOf(kind), func(ids []string) error {
		f.report.Queued += len(ids)
		states, err := f.states(ctx, ids)
		if err != nil {
			return err
		}
		for i, id := range ids {
			state := statusOf(states[i])
			if state != "" && kindOf(states[i]) != kind {
				if len(f.strays) < maxDeep {
					f.strays = append(f.strays, stray{id, kind, kindOf(states[i])})
				}
				continue
			}
			if f.waits(id) {
				f.later(id, look{queue: "all", kind: kind}, "")
			}
			f.waiting[f.hash(id)] = struct{}{}
			switch state {
			case "queued":
			case "":
				f.later(id, look{queue: "all", kind: kind}, "")
			default:
				f.later(id, look{queue: "all", kind: kind}, staleEntry)
			}
		}
		return nil
	})
}

// stray is an entry in the queue of a kind that is not the job's. Leases pass it over.
type stray struct {
	id     string
	in, is jobs.Kind
}

// strayEntries: what the walks have found of those.
func (f *fsck) strayEntries(ctx context.Context) error {
	for _, s := range f.strays {
		done := ""
		if f.repair {
			err := f.call(ctx, func(ctx context.Context) error { return f.q.rdb.LRem(ctx, queueOf(s.in), 0, s.id).Err() })
			if err != nil {
				return err
			}
			done = "removed"
		}
		f.report.Add(newFinding(staleEntry, jobs.ID(s.id), "in "+queueOf(s.in)+"; it is of kind "+string(cmp.Or(s.is, KindZPE)), done))
	}
	return nil
}

func (f *fsck) dead(ctx context.Context) error { return f.eachKind(ctx, dlqKindsKey, f.deadOf) }

// deadOf: a dead letter has failed, and is there once.
func (f *fsck) deadOf(ctx context.Context, kind jobs.Kind) error {
	letters := map[uint64]struct{}{}
	return f.walkList(ctx, dlqOf(kind), func(ids []string) error {
		f.report.Dead += len(ids)
		for _, id := range ids {
			if _, twice := letters[f.hash(id)]; twice {
				f.later(id, look{dead: true, kind: kind}, "")
			}
			letters[f.hash(id)] = struct{}{}
		}
		return f.whereNot(ctx, ids, "failed", func(id, state string) error {
			finding := ""
			if state == "" {
				finding = expiredLetter
			}
			f.later(id, look{dead: true, kind: kind}, finding)
			return nil
		})
	})
}

// lists: what is in the list of a state is in that state.
func (f *fsck) lists(ctx context.Context) error {
	for i := range 2 * len(States) {
		state, others := States[i%len(States)], i >= len(States)
		err := f.walkSet(ctx, listKey(state, others), func(ids []string) error {
			seen, err := f.states(ctx, ids)
			for i, id := range ids {
				if err == nil && (listState(seen[i].Val()) != state || (kindOf(seen[i]) != "") != others) {
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

// states reads status, detail and kind of jobs.
func (f *fsck) states(ctx context.Context, ids []string) ([]*redis.SliceCmd, error) {
	states := make([]*redis.SliceCmd, len(ids))
	err := f.pipe(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, id := range ids {
			states[i] = p.HMGet(ctx, statusKey(jobs.ID(id)), "status", "detail", "kind")
		}
	})
	return states, err
}

func statusOf(state *redis.SliceCmd) string { return redisdb.Reply(state.Val()).Text(0) }

func kindOf(state *redis.SliceCmd) jobs.Kind { return plain(redisdb.Reply(state.Val()).Text(2)) }

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
