package schedules

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// The keys, all in one hash slot: a hash of schedules by name in JSON; a sorted set of their names by when each comes next, in ms
// since 1970; a hash of the last run of each in JSON; and who makes jobs, for 15 s.
const (
	allKey    = "{schedules}:all"
	nextKey   = "{schedules}:next"
	lastKey   = "{schedules}:last"
	runnerKey = "{schedules}:runner"
)

// MaxSchedules is how many there may be.
const MaxSchedules = 1000

//go:embed lua/*.lua
var lua embed.FS

var (
	saveScript   = redisdb.NewScript(lua, "save")
	tickScript   = redisdb.NewScript(lua, "tick")
	doneScript   = redisdb.NewScript(lua, "done")
	removeScript = redisdb.NewScript(lua, "remove")
	resignScript = redisdb.NewScript(lua, "resign")
)

// Store keeps schedules in Redis. Its methods may be called concurrently. An error wraps [jobs.ErrUnavailable] when Redis does
// not answer.
type Store struct{ Redis redis.UniversalClient }

func (s *Store) run(ctx context.Context, what string, sc redisdb.Script, keys []string, args ...any) (redisdb.Reply, error) {
	got, err := sc.Run(ctx, s.Redis, keys, args...)
	return got, unavailable(what, err)
}

func unavailable(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
}

// errMany means that there are MaxSchedules already.
var errMany = fmt.Errorf("there are %d schedules already", MaxSchedules)

// save saves a schedule that was checked, and reports whether it is new. next is zero for one that is paused.
func (s *Store) save(ctx context.Context, sch jobapi.Schedule, next time.Time) (fresh bool, err error) {
	sch.Next, sch.Last = jobapi.Time{}, nil
	text, err := json.Marshal(sch)
	if err != nil {
		return false, err
	}
	at := ""
	if !next.IsZero() {
		at = fmt.Sprint(next.UnixMilli())
	}
	got, err := s.run(ctx, "save schedule "+sch.Name, saveScript, []string{allKey, nextKey}, sch.Name, text, at, MaxSchedules)
	if err == nil && got.Number(0) < 0 {
		err = errMany
	}
	return got.Number(0) == 0, err
}

// remove forgets a schedule. The error wraps [fs.ErrNotExist] when there is none.
func (s *Store) remove(ctx context.Context, name string) error {
	got, err := s.run(ctx, "remove schedule "+name, removeScript, []string{allKey, nextKey, lastKey}, name)
	if err == nil && got.Number(0) == 0 {
		err = noSchedule(name)
	}
	return err
}

func noSchedule(name string) error { return fmt.Errorf("schedule %.63q: %w", name, fs.ErrNotExist) }

// get returns a schedule. The error wraps [fs.ErrNotExist] when there is none.
func (s *Store) get(ctx context.Context, name string) (jobapi.Schedule, error) {
	pipe := s.Redis.Pipeline()
	text, last, next := pipe.HGet(ctx, allKey, name), pipe.HGet(ctx, lastKey, name), pipe.ZScore(ctx, nextKey, name)
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return jobapi.Schedule{}, unavailable("read schedule "+name, err)
	}
	if text.Val() == "" {
		return jobapi.Schedule{}, noSchedule(name)
	}
	return shown(text.Val(), last.Val(), next.Val())
}

// List returns all schedules, by name.
func (s *Store) List(ctx context.Context) ([]jobapi.Schedule, error) {
	pipe := s.Redis.Pipeline()
	texts, lasts, nexts := pipe.HGetAll(ctx, allKey), pipe.HGetAll(ctx, lastKey), pipe.ZRangeWithScores(ctx, nextKey, 0, -1)
	if err := redisdb.Exec(ctx, pipe); err != nil {
		return nil, unavailable("read schedules", err)
	}
	next := map[string]float64{}
	for _, z := range nexts.Val() {
		name, _ := z.Member.(string)
		next[name] = z.Score
	}
	all := make([]jobapi.Schedule, 0, len(texts.Val()))
	for name, text := range texts.Val() {
		sch, err := shown(text, lasts.Val()[name], next[name])
		if err != nil {
			return nil, err
		}
		all = append(all, sch)
	}
	slices.SortFunc(all, func(a, b jobapi.Schedule) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// shown puts together what is on record of a schedule.
func shown(text, last string, next float64) (sch jobapi.Schedule, err error) {
	if err := json.Unmarshal([]byte(text), &sch); err != nil {
		return sch, fmt.Errorf("read a schedule: %w: %w", jobs.ErrUnavailable, err)
	}
	sch.Next, sch.Last = jobapi.Time{}, nil
	if next > 0 && !sch.Paused {
		sch.Next = jobapi.At(time.UnixMilli(int64(next)))
	}
	var run jobapi.ScheduleRun
	if last != "" && json.Unmarshal([]byte(last), &run) == nil {
		sch.Last = &run
	}
	return sch, nil
}

// zone returns the time zone of a schedule.
func zone(sch jobapi.Schedule) (*time.Location, error) {
	return time.LoadLocation(cmp.Or(sch.Zone, "UTC"))
}
