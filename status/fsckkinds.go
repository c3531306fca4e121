package status

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// kinds looks at what is in the indexes by kind. That a queued job is missing there is found with its other places.
func (f *fsck) kinds(ctx context.Context) error {
	pipe := f.s.rdb.Pipeline()
	known := listKinds(ctx, pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		return unavailable("list kinds", err)
	}
	for _, kind := range known.Val() {
		if err := f.walkKind(ctx, indexedKind(kind)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fsck) walkKind(ctx context.Context, kind string) error {
	var suspects []string
	for members, err := range redisdb.Members(ctx, f.s.rdb, kindIndexKey(kind)) {
		if err != nil {
			return unavailable("read queued jobs of kind "+kind, err)
		}
		wrong, _, err := f.s.notOfKind(ctx, kind, members)
		if err != nil {
			return err
		}
		if suspects = append(suspects, wrong...); len(suspects) >= maxSuspects {
			break // another run finds more
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	if err := jobs.Sleep(ctx, secondLook); err != nil {
		return err
	}
	slices.Sort(suspects)
	for part := range slices.Chunk(slices.Compact(suspects), redisdb.ScanCount) {
		wrong, records, err := f.s.notOfKind(ctx, kind, part)
		if err != nil {
			return err
		}
		done := ""
		if f.repair && len(wrong) > 0 {
			done = "dropped from the index"
			if err := f.s.rdb.ZRem(ctx, kindIndexKey(kind), wrong).Err(); err != nil {
				return unavailable("repair index", err)
			}
		}
		for i, m := range wrong {
			id := jobs.ID(jobs.Clip(m, jobs.MaxIDLength, " …"))
			if records[i].found == nothing {
				f.report.Add(NewFinding(forgotten, id, "nothing is known of it any more", done))
			} else {
				f.report.Add(NewFinding(misplaced, id, fmt.Sprintf("it is among the queued jobs of kind %s, and is %s and of kind %q", kind, records[i].State(), records[i].Detail.Kind), done))
			}
		}
	}
	return nil
}

// notOfKind returns those of some members of the index of a kind that do not belong there, and what is on record of
// them; not those that are in that of queued jobs as well, and wrong there.
func (s *Store) notOfKind(ctx context.Context, kind string, members []string) (wrong []string, records []record, err error) {
	if len(members) == 0 {
		return nil, nil, nil
	}
	// The places come first, as in looks.
	queued, own := make([]*redis.FloatCmd, len(members)), make([]*redis.FloatCmd, len(members))
	seen, err := s.readBeside(ctx, members, func(pipe redis.Pipeliner) {
		for i, m := range members {
			queued[i], own[i] = pipe.ZScore(ctx, stateIndexKey(jobs.Queued), m), pipe.ZScore(ctx, kindIndexKey(kind), m)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for i, r := range seen {
		isQueued := r.found == readable && r.State() == jobs.Queued
		switch {
		case own[i].Err() != nil: // it has left
		case r.found == foreign, r.found == unreadable: // it is unknown where it belongs
		case isQueued && indexedKind(string(r.Detail.Kind)) == kind:
		case isQueued, queued[i].Err() != nil:
			wrong, records = append(wrong, members[i]), append(records, r)
		}
	}
	return wrong, records, nil
}

// missingOfKind reports for each look whether its job is queued, and not in the index of its kind.
func (s *Store) missingOfKind(ctx context.Context, looks []look) ([]bool, error) {
	missing, places := make([]bool, len(looks)), map[int]*redis.FloatCmd{}
	pipe := s.rdb.Pipeline()
	for i, l := range looks {
		if l.found == readable && l.State() == jobs.Queued && !l.gone {
			places[i] = pipe.ZScore(ctx, kindIndexKey(string(l.Detail.Kind)), string(l.ID))
		}
	}
	if len(places) == 0 {
		return missing, nil
	}
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return nil, unavailable("read index", err)
	}
	for i, place := range places {
		missing[i] = place.Err() != nil
	}
	return missing, nil
}

// judgeKind says what is wrong with a queued job that is in no index by kind.
func (l *look) judgeKind() {
	if l.kind == "" {
		l.kind = missing
		l.detail = "it is queued and not among those of kind " + indexedKind(string(l.Detail.Kind))
	}
}
