package queue

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

const (
	// maxFindings bounds what a report lists; all are counted. Of this room and of
	// maxDeep, what is harmless takes half at most: it must not hide damage.
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
// eight round trips per thousand queued jobs and four small reads per job.
func (q *Queue) Fsck(ctx context.Context, repair bool) (Report, error) {
	f := &fsck{
		q: q, repair: repair, seed: maphash.MakeSeed(), waiting: map[uint64]struct{}{}, lost: map[jobs.ID]jobs.Kind{},
		counted: map[uint64]struct{}{}, deep: map[string]look{}, report: Report{Audit: redisdb.NewAudit(maxFindings), ByState: map[string]int{}},
	}
	// The places come before the statuses: a job that is queued then and in no
	// place has either moved or is lost.
	for _, step := range []func(context.Context) error{f.index, f.delay, f.queue, f.dead, f.lists, f.statuses, f.strayEntries, f.searchLists, f.findLost, f.scopes} {
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
	lost    map[jobs.ID]jobs.Kind
	deep    map[string]look // suspects for whom a list must be searched
	report  Report

	harmlessDeep int // how many of deep are harmless
	strays       []stray
}

// look is where to look for a suspect.
type look struct {
	queue string // "all", "ends" or not at all
	dead  bool
	kind  jobs.Kind // in whose list it was found; empty if in none of a kind's own
}

// later suspects an entry of a list. The lists are searched after the walks,
// because a repair would move the entries that a walk has yet to see. Beyond
// maxDeep, kind is counted unproven if it is harmless.
func (f *fsck) later(id string, l look, kind string) {
	old, known := f.deep[id]
	switch {
	case known || redisdb.HasRoom(len(f.deep), f.harmlessDeep, maxDeep, Harmless(kind)):
		f.deep[id] = look{queue: max(old.queue, l.queue), dead: old.dead || l.dead, kind: cmp.Or(l.kind, old.kind)}
		if !known && Harmless(kind) {
			f.harmlessDeep++
		}
	case Harmless(kind):
		f.report.Counts[kind]++
		f.report.Harmless++
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
		id, f.repair, text(now), f.q.ResultTTL.Milliseconds(), l.queue, nearEnds, l.dead, f.q.LateTTL.Milliseconds(), string(l.kind),
	}
	a, err := f.q.run(ctx, "look at job "+id, fsckScript, []string{queueKey, delayKey, indexKey, dlqKey}, append(args, f.q.runAts(now)...)...)
	if err != nil {
		return err
	}
	for i := 0; i+2 < len(a); i += 3 {
		seen := f.hash(id + ":" + a.Text(i))
		if _, twice := f.counted[seen]; twice {
			continue // the job was suspected for two reasons
		}
		f.counted[seen] = struct{}{}
		f.report.Add(newFinding(a.Text(i), jobs.ID(id), a.Text(i+1), a.Text(i+2)))
	}
	return nil
}

func (f *fsck) hash(id string) uint64 { return maphash.String(f.seed, id) }

func (f *fsck) waits(id string) bool {
	_, ok := f.waiting[f.hash(id)]
	return ok
}

// statuses: what is queued waits somewhere and has a payload, what is started has
// its lease in the index, what has finished has a result, nothing else has a lease,
// and everything is listed.
func (f *fsck) statuses(ctx context.Context) error {
	for page, err := range redisdb.Scan(ctx, func(ctx context.Context, cursor uint64) *redis.ScanCmd {
		// It reads "zpe:status:" and "zpe:lease:", and little else.
		return f.q.rdb.Scan(ctx, cursor, "zpe:[sl][te]a[ts][ue]*", redisdb.ScanCount)
	}) {
		if err != nil {
			return unavailable("read", err)
		}
		if err := f.checkPage(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

// seen is what is read of a job after its status.
type seen struct {
	isLease bool
	list    *redis.FloatCmd
	lease   *redis.SliceCmd
	score   *redis.FloatCmd
	stored  *redis.IntCmd // its payload or result
}

// checkPage reads a page of statuses and leases: the status first, and then what must go
// with it.
func (f *fsck) checkPage(ctx context.Context, keys []string) error {
	var ids []string
	var page []seen
	for _, k := range keys {
		if id, ok := strings.CutPrefix(k, "zpe:status:"); ok {
			ids, page = append(ids, id), append(page, seen{})
		} else if id, ok := strings.CutPrefix(k, "zpe:lease:"); ok && k != indexKey {
			ids, page = append(ids, id), append(page, seen{isLease: true})
		}
	}
	states, err := f.states(ctx, ids)
	if err != nil {
		return err
	}
	err = f.pipe(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for i, s := range page {
			id, state, list := jobs.ID(ids[i]), statusOf(states[i]), listState(states[i].Val())
			if !s.isLease && slices.Contains(States, list) {
				page[i].list = p.ZScore(ctx, listKey(list, kindOf(states[i]) != ""), ids[i])
			}
			switch {
			case s.isLease || state == "started":
				page[i].lease = p.HMGet(ctx, leaseKey(id), "expires_at", "worker_id", "lease_id")
				page[i].score = p.ZScore(ctx, indexKey, ids[i])
			case state == "queued":
				page[i].stored = p.Exists(ctx, payloadKey(id))
			case state == "finished":
				page[i].stored = p.Exists(ctx, resultKey(id))
			}
		}
	})
	if err != nil {
		return err
	}
	for i, s := range page {
		id, state := ids[i], statusOf(states[i])
		if !s.isLease {
			f.report.Jobs[state]++
			f.report.ByState[people(listState(states[i].Val()))]++
		}
		var wrong bool
		switch {
		case s.isLease, state == "started":
			wrong = state != "started" || !indexed(s.lease, s.score)
		case state == "queued", state == "finished":
			wrong = s.stored.Val() == 0
		default:
			wrong = state != "failed"
		}
		switch {
		case wrong && state == "queued" && f.waits(id):
			f.later(id, look{queue: "all"}, "") // its entry must go with it
		case wrong, s.list != nil && s.list.Err() != nil:
			err = f.suspect(ctx, id, look{})
		}
		if !wrong && state == "queued" && !f.waits(id) {
			f.misses(id, kindOf(states[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// misses notes that a queued job was in no place.
func (f *fsck) misses(id string, kind jobs.Kind) {
	if len(f.lost) < maxLost {
		f.lost[jobs.ID(id)] = kind
	} else {
		f.report.Unchecked++
	}
}

// indexed reports whether a lease has a holder and an id and ends when the index
// says.
func indexed(hash *redis.SliceCmd, index *redis.FloatCmd) bool {
	lease := redisdb.Reply(hash.Val())
	if index.Err() != nil || len(lease) != 3 || lease[1] == nil || lease[2] == nil {
		return false
	}
	ends, err := strconv.ParseFloat(lease.Text(0), 64)
	return err == nil && ends == index.Val()
}

// register looks whether a kind that has a queue is among those that have one. No job is
// lost if it is not, but gateways count them too low and do not wake their workers.
func (f *fsck) register(ctx context.Context, kind jobs.Kind) error {
	return f.call(ctx, func(ctx context.Context) error {
		listed, err := f.q.rdb.SIsMember(ctx, queueKindsKey, string(kind)).Result()
		if err != nil || listed {
			return err
		}
		if n, err := f.q.rdb.Exists(ctx, queueOf(kind)).Result(); err != nil || n == 0 {
			return err // it is empty meanwhile
		}
		done := ""
		if f.repair {
			if err := f.q.rdb.SAdd(ctx, queueKindsKey, string(kind)).Err(); err != nil {
				return err
			}
			done = "added to " + queueKindsKey
		}
		f.report.Add(newFinding("queue not registered", "", "kind "+string(kind)+" is not in "+queueKindsKey, done))
		return nil
	})
}

// findLost looks for the jobs that had no place when their status was read. Most
// were queued or moved meanwhile, so the queue is walked again. What is not in it
// then is either lost or was put near one of its ends since.
func (f *fsck) findLost(ctx context.Context) error {
	if len(f.lost) == 0 {
		return nil
	}
	kinds := map[jobs.Kind]bool{}
	for _, kind := range f.lost {
		kinds[kind] = true
	}
	for kind := range kinds {
		found := 0
		err := f.walkList(ctx, queueOf(kind), func(ids []string) error {
			for _, id := range ids {
				if k, ok := f.lost[jobs.ID(id)]; ok && k == kind {
					delete(f.lost, jobs.ID(id))
					found++
				}
			}
			return nil
		})
		if err == nil && found > 0 && kind != "" {
			err = f.register(ctx, kind)
		}
		if err != nil {
			return err
		}
	}
	for id := range f.lost {
		if err := f.suspect(ctx, string(id), look{queue: "ends"}); err != nil {
			return err
		}
	}
	return nil
}
