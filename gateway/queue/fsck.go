package queue

import (
	"context"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

const (
	// maxFindings bounds what a report lists; all are counted.
	maxFindings = 10_000
	// maxLost bounds the ids kept of jobs that seem to have no entry, about 100
	// bytes each, and maxDeep the jobs that a whole list is searched for, each of
	// which keeps Redis busy for some 10 ms per million entries.
	maxLost = 500_000
	maxDeep = 1000
	// nearEnds is how far from the ends of the queue an entry can be that was put
	// there while Fsck walked it.
	nearEnds = 100_000
)

// Fsck proves that every job is in exactly one place, or says which is not, and
// repairs that if told to. It may run at any time beside gateways and workers:
// what looks wrong is looked at again, and repaired, by one script at one moment.
//
// It reads pages of 1000 and never holds Redis for long, except that up to 1000
// suspected entries of long lists are searched for. A million waiting jobs take
// it about 40 MB, because it remembers a hash of every entry; two ids of one hash
// would hide a finding, which 64 bits make unlikely. It takes about
// eight round trips per thousand queued jobs and three small reads per job.
func (q *Queue) Fsck(ctx context.Context, repair bool) (Report, error) {
	f := &fsck{
		q: q, repair: repair, seed: maphash.MakeSeed(), waiting: map[uint64]struct{}{}, lost: map[jobs.ID]struct{}{},
		counted: map[uint64]struct{}{}, deep: map[string]look{}, report: Report{Jobs: map[string]int{}, Counts: map[string]int{}, Findings: []Finding{}},
	}
	// The places come before the statuses: a job that is queued then and in no
	// place has either moved or is lost.
	for _, step := range []func(context.Context) error{f.index, f.delay, f.queue, f.dead, f.statuses, f.searchLists, f.findLost} {
		if err := step(ctx); err != nil {
			return f.report, fmt.Errorf("check jobs: %w", err)
		}
	}
	return f.report, nil
}

type fsck struct {
	q       *Queue
	repair  bool
	seed    maphash.Seed
	waiting map[uint64]struct{} // the entries of queue and delay set
	counted map[uint64]struct{} // what is in the report already, by job and kind
	lost    map[jobs.ID]struct{}
	deep    map[string]look // suspects for whom a list must be searched
	report  Report
}

// look is where to look for a suspect.
type look struct {
	queue string // "all", "ends" or not at all
	dead  bool
}

// later suspects an entry of a list. The lists are searched after the walks,
// because a repair would move the entries that a walk has yet to see. Beyond
// maxDeep, kind is counted unproven if it is harmless.
func (f *fsck) later(id string, l look, kind string) {
	old, known := f.deep[id]
	switch {
	case known || len(f.deep) < maxDeep:
		f.deep[id] = look{queue: max(old.queue, l.queue), dead: old.dead || l.dead}
	case harmless(kind):
		f.report.Counts[kind]++
	default:
		f.report.Unchecked++
	}
}

func (f *fsck) searchLists(ctx context.Context) error {
	for id, l := range f.deep {
		if err := f.suspect(ctx, id, l); err != nil {
			return err
		}
	}
	return nil
}

// suspect looks at a job at one moment.
func (f *fsck) suspect(ctx context.Context, id string, l look) error {
	now := f.q.Now()
	args := []any{
		id, flag(f.repair), text(now), f.q.ResultTTL.Milliseconds(), l.queue, nearEnds, flag(l.dead), f.q.LateTTL.Milliseconds(),
	}
	a, err := f.q.run(ctx, "look at job "+id, fsckScript, []string{queueKey, delayKey, indexKey, dlqKey}, append(args, f.q.runAts(now)...)...)
	if err != nil {
		return err
	}
	for i := 0; i+2 < len(a); i += 3 {
		seen := f.hash(id + ":" + a.text(i))
		if _, twice := f.counted[seen]; twice {
			continue // the job was suspected for two reasons
		}
		f.counted[seen] = struct{}{}
		f.report.Counts[a.text(i)]++
		if a.text(i+2) == "" && !harmless(a.text(i)) {
			f.report.Left++
		}
		if len(f.report.Findings) < maxFindings {
			f.report.Findings = append(f.report.Findings, Finding{a.text(i), jobs.ID(id), a.text(i + 1), a.text(i + 2)})
		}
	}
	return nil
}

func (f *fsck) hash(id string) uint64 { return maphash.String(f.seed, id) }

func (f *fsck) waits(id string) bool {
	_, ok := f.waiting[f.hash(id)]
	return ok
}

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

// whereNot calls suspect for those whose status is not want.
func (f *fsck) whereNot(ctx context.Context, ids []string, want string, suspect func(id, state string) error) error {
	states := make([]*redis.StringCmd, len(ids))
	err := f.pipe(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, id := range ids {
			states[i] = p.HGet(ctx, statusKey(jobs.ID(id)), "status")
		}
	})
	for i, id := range ids {
		if err == nil && states[i].Val() != want {
			err = suspect(id, states[i].Val())
		}
	}
	return err
}

// statuses: what is queued waits somewhere and has a payload, what is started has
// its lease in the index, what has finished has a result, and nothing else has a
// lease.
func (f *fsck) statuses(ctx context.Context) error {
	for cursor := uint64(0); ; {
		var page []string
		err := f.call(ctx, func(ctx context.Context) (err error) {
			// It reads "zpe:status:" and "zpe:lease:", and little else.
			page, cursor, err = f.q.rdb.Scan(ctx, cursor, "zpe:[sl][te]a[ts][ue]*", fsckPage).Result()
			return err
		})
		if err == nil {
			err = f.look(ctx, page)
		}
		if err != nil || cursor == 0 {
			return err
		}
	}
}

// look looks at a page of statuses and leases: at the status first, and then at
// what must go with it.
func (f *fsck) look(ctx context.Context, keys []string) error {
	type seen struct {
		id              string
		isLease         bool
		state           *redis.StringCmd
		lease           *redis.SliceCmd
		score           *redis.FloatCmd
		payload, result *redis.IntCmd
	}
	page := make([]seen, 0, len(keys))
	for _, k := range keys {
		if id, ok := strings.CutPrefix(k, "zpe:status:"); ok {
			page = append(page, seen{id: id})
		} else if id, ok := strings.CutPrefix(k, "zpe:lease:"); ok && k != indexKey {
			page = append(page, seen{id: id, isLease: true})
		}
	}
	err := f.pipe(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, s := range page {
			page[i].state = p.HGet(ctx, statusKey(jobs.ID(s.id)), "status")
		}
	})
	if err != nil {
		return err
	}
	err = f.pipe(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, s := range page {
			id, state := jobs.ID(s.id), s.state.Val()
			switch {
			case s.isLease || state == "started":
				page[i].lease = p.HMGet(ctx, leaseKey(id), "expires_at", "worker_id", "lease_id")
				page[i].score = p.ZScore(ctx, indexKey, s.id)
			case state == "queued":
				page[i].payload = p.Exists(ctx, payloadKey(id))
			case state == "finished":
				page[i].result = p.Exists(ctx, resultKey(id))
			}
		}
	})
	if err != nil {
		return err
	}
	for _, s := range page {
		state := s.state.Val()
		if !s.isLease {
			f.report.Jobs[state]++
		}
		var wrong bool
		switch {
		case s.isLease:
			wrong = state != "started" || !indexed(s.lease, s.score)
		case state == "started":
			wrong = !indexed(s.lease, s.score)
		case state == "queued":
			wrong = s.payload.Val() == 0
			if !wrong && !f.waits(s.id) {
				f.misses(s.id)
			}
		case state == "finished":
			wrong = s.result.Val() == 0
		default:
			wrong = state != "failed"
		}
		if !wrong {
			continue
		}
		if state == "queued" && f.waits(s.id) {
			f.later(s.id, look{queue: "all"}, "") // its entry must go with it
		} else if err := f.suspect(ctx, s.id, look{}); err != nil {
			return err
		}
	}
	return nil
}

// misses notes that a queued job was in no place.
func (f *fsck) misses(id string) {
	if len(f.lost) < maxLost {
		f.lost[jobs.ID(id)] = struct{}{}
	} else {
		f.report.Unchecked++
	}
}

// indexed reports whether a lease has a holder and an id and ends when the index
// says.
func indexed(hash *redis.SliceCmd, index *redis.FloatCmd) bool {
	lease := hash.Val()
	if index.Err() != nil || len(lease) != 3 || lease[1] == nil || lease[2] == nil {
		return false
	}
	text, _ := lease[0].(string)
	ends, err := strconv.ParseFloat(text, 64)
	return err == nil && ends == index.Val()
}

// findLost looks for the jobs that had no place when their status was read. Most
// were queued or moved meanwhile, so the queue is walked again. What is not in it
// then is either lost or was put near one of its ends since.
func (f *fsck) findLost(ctx context.Context) error {
	if len(f.lost) == 0 {
		return nil
	}
	err := f.walkList(ctx, queueKey, func(ids []string) error {
		for _, id := range ids {
			delete(f.lost, jobs.ID(id))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id := range f.lost {
		if err := f.suspect(ctx, string(id), look{queue: "ends"}); err != nil {
			return err
		}
	}
	return nil
}
