package status

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// indexAge is how long a job stays in the index. It is longer than TTL because
// a running job renews its keys but not its place in the index.
const indexAge = 7 * 24 * time.Hour

// createdAt returns when a job counts as created if nothing is on record of it, in
// milliseconds since 1970: when its sender says, if that can be, or else now. It
// cannot be so long ago that the job would be dropped from the index while it is on
// record. The scripts keep the first such time in {job:ID}:detail; what they answer
// is the score of the job in all of the indexes.
func createdAt(job jobs.Job, now time.Time) int64 {
	if at := job.Submitted; at.After(now.Add(TTL-indexAge)) && !at.After(now) {
		return at.UnixMilli()
	}
	return now.UnixMilli()
}

// move is a change of a job, for the indexes.
type move struct {
	id      jobs.ID
	state   jobs.State
	created int64        // in milliseconds since 1970, as the scripts answer
	others  []jobs.State // where it can have been
	listed  bool         // it is in the index already, and need only be put into that of its state
	kind    string       // on record before and, if the job is queued, after; empty for none
	left    string       // another kind among whose queued jobs it may be; empty for none
	count   count        // what is counted
	quiet   bool         // nothing has changed: the job is only put where it belongs
}

// enter puts jobs into the index, and into those of their states, and then takes them out of those of
// other states. No index can be part of a script, because each lives in a slot of its own, so a
// state and its index differ for a moment, and for longer when a process ends in
// between: who reads the index compares it with the documents, see repair. In the same round trip it
// counts what came and ended, and tells readers of [Store.Changes]. It returns its commands,
// which are few however many jobs there are.
func (u *upkeep) enter(ctx context.Context, pipe redis.Pipeliner, moves ...move) (cmds []redis.Cmder) {
	added, removed := map[string][]redis.Z{}, map[string][]any{}
	send := func() {
		for key, members := range added {
			cmds = append(cmds, pipe.ZAdd(ctx, key, members...))
			cmds = append(cmds, u.after(ctx, pipe, key)...)
		}
		for key, members := range removed {
			cmds = append(cmds, pipe.ZRem(ctx, key, members...))
		}
		clear(added)
		clear(removed)
	}
	seen := map[jobs.ID]bool{}
	for _, m := range moves {
		if seen[m.id] { // one move after the other
			send()
			clear(seen)
		}
		seen[m.id] = true
		place := redis.Z{Score: float64(m.created * 1000), Member: string(m.id)}
		if !m.listed {
			added[indexKey] = append(added[indexKey], place)
		}
		added[stateIndexKey(m.state)] = append(added[stateIndexKey(m.state)], place)
		if m.state == jobs.Queued {
			added[kindIndexKey(m.kind)] = append(added[kindIndexKey(m.kind)], place)
		}
		for _, other := range m.others {
			if other != m.state {
				removed[stateIndexKey(other)] = append(removed[stateIndexKey(other)], string(m.id))
			}
		}
		for _, key := range m.leaves() {
			removed[key] = append(removed[key], string(m.id))
		}
	}
	send()
	return append(cmds, tell(ctx, pipe, moves)...)
}

// leaves returns the indexes by kind that the job can have been in.
func (m *move) leaves() (keys []string) {
	if !slices.Contains(m.others, jobs.Queued) {
		return nil
	}
	own := kindIndexKey(m.kind)
	if m.state != jobs.Queued {
		keys = append(keys, own)
	}
	if other := kindIndexKey(m.left); m.left != "" && other != own {
		keys = append(keys, other)
	}
	return keys
}

// trim drops what is too old from an index.
func trim(ctx context.Context, pipe redis.Pipeliner, key string) redis.Cmder {
	return pipe.ZRemRangeByScore(ctx, key, "-inf", strconv.FormatInt(time.Now().Add(-indexAge).UnixMicro(), 10))
}

// move enters a job where a script's answer says that it belongs; others is where it
// can have been, if no process has ended between a document and its index. Where
// its error is left out, it costs nothing but that who next reads the index finds
// the job in a wrong place.
func (s *Store) move(ctx context.Context, m move) error {
	if m.state == 0 || m.created == 0 {
		return nil
	}
	_, err := s.together.of(ctx, s.rdb, indexKey).Do(ctx, request{move: &m})
	return unavailable(fmt.Sprintf("list job %s", m.id), own(ctx, err))
}

// forget takes members out of all indexes; kinds are those that have one.
func forget(ctx context.Context, pipe redis.Pipeliner, members, kinds []string) {
	gone := make([]any, len(members))
	for i, m := range members {
		gone[i] = m
	}
	for _, key := range indexKeys() {
		pipe.ZRem(ctx, key, gone...)
	}
	for _, kind := range kinds {
		pipe.ZRem(ctx, kindIndexKey(kind), gone...)
	}
}

// repairRounds is how often repair looks again after it has moved something.
const repairRounds = 3

// repair moves jobs to the index where their documents say that they belong, and
// drops those that are forgotten. Whoever changes a document moves the job
// afterwards; so that such a move is not undone by one that was decided on before
// it, repair reads again after it has written, until nothing has changed.
func (s *Store) repair(ctx context.Context, members []string) error {
	for range repairRounds {
		if len(members) == 0 {
			return nil
		}
		var kinds *redis.StringSliceCmd
		seen, err := s.readBeside(ctx, members, func(pipe redis.Pipeliner) { kinds = listKinds(ctx, pipe) })
		if err != nil {
			return err
		}
		pipe := s.rdb.Pipeline()
		var moves []move
		var gone []string
		for i, m := range members {
			switch r := seen[i]; r.found {
			case nothing:
				gone = append(gone, m)
			case readable:
				if r.Created.IsZero() {
					r.Created = time.Now() // nothing on record says when
				}
				moves = append(moves, move{id: r.ID, state: r.State(), created: r.Created.UnixMilli(), others: states, kind: string(r.Detail.Kind), left: string(UnknownKind)})
			case foreign, unreadable: // where it belongs is unknown
			}
		}
		if len(gone) > 0 {
			forget(ctx, pipe, gone, kinds.Val())
		}
		s.together.enter(ctx, pipe, moves...)
		if pipe.Len() > 0 {
			if _, err := pipe.Exec(ctx); err != nil {
				return unavailable("repair index", err)
			}
		}
		again, err := s.read(ctx, members)
		if err != nil {
			return err
		}
		var changed []string
		for i, m := range members {
			if seen[i].found != again[i].found || seen[i].State() != again[i].State() {
				changed = append(changed, m)
			}
		}
		members = changed
	}
	return nil
}
