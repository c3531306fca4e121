package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// Entry is all that is on record of one job.
type Entry struct {
	ID jobs.ID
	Document
	Detail Detail
}

// Detail is what {job:ID}:detail holds. Times are zero while they are unknown.
type Detail struct {
	Kind      jobs.Kind
	Input     string
	Worker    string // who runs it, or ran it last
	Trace     string
	Step      string               // the part of the work under way
	Steps     map[string]time.Time // when each step was last begun
	Attempt   int
	Crashes   int
	Pages     int
	Submitted time.Time
	Started   time.Time // of the last attempt
	Finished  time.Time
}

// Get returns what is on record of a job. The error wraps [fs.ErrNotExist] when
// there is nothing.
func (s *Store) Get(ctx context.Context, id jobs.ID) (Entry, error) {
	found, err := s.Entries(ctx, []jobs.ID{id})
	if err != nil {
		return Entry{}, err
	}
	if len(found) == 0 {
		return Entry{}, fmt.Errorf("job %s: %w", id, fs.ErrNotExist)
	}
	return found[0], nil
}

// Entries returns what is on record of several jobs, in their order, in one
// round trip. Those of which nothing is known are left out.
func (s *Store) Entries(ctx context.Context, ids []jobs.ID) ([]Entry, error) {
	docs := make([]*redis.StringCmd, len(ids))
	details := make([]*redis.MapStringStringCmd, len(ids))
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			docs[i] = pipe.Get(ctx, jobKey(id))
			details[i] = pipe.HGetAll(ctx, detailKey(id))
		}
		return nil
	})
	var found []Entry
	for i, id := range ids {
		text, docErr := docs[i].Result()
		if errors.Is(docErr, redis.Nil) || redis.HasErrorPrefix(docErr, "WRONGTYPE") {
			continue // expired, or not ours
		}
		if docErr != nil {
			return nil, unavailable("read job "+string(id), errors.Join(docErr, err))
		}
		e := Entry{ID: id, Detail: parseDetail(details[i].Val())}
		if json.Unmarshal([]byte(text), &e.Document) != nil {
			e.Document = Document{Message: "unreadable status"}
		}
		found = append(found, e)
	}
	return found, nil
}

func parseDetail(f map[string]string) Detail {
	number := func(name string) int {
		n, _ := strconv.Atoi(f[name])
		return n
	}
	moment := func(name string) time.Time {
		ms, err := strconv.ParseInt(f[name], 10, 64)
		if err != nil {
			return time.Time{}
		}
		return time.UnixMilli(ms).UTC()
	}
	d := Detail{
		Kind: jobs.Kind(f["kind"]), Input: f["input"], Worker: f["worker"], Trace: f["trace"], Step: f["step"],
		Attempt: number("attempt"), Crashes: number("crashes"), Pages: number("pages"),
		Submitted: moment("submitted_at"), Started: moment("started_at"), Finished: moment("finished_at"),
		Steps: map[string]time.Time{},
	}
	for name := range f {
		if step, ok := strings.CutPrefix(name, "step_"); ok {
			if step, ok = strings.CutSuffix(step, "_at"); ok {
				d.Steps[step] = moment(name)
			}
		}
	}
	return d
}

// MaxList is how many jobs one call of List returns at most.
const MaxList = 200

// List returns up to limit jobs, newest first, and a cursor for the next page,
// empty when there is none. Start with an empty cursor. It takes two round
// trips however many jobs there are.
func (s *Store) List(ctx context.Context, limit int, cursor string) (found []Entry, next string, err error) {
	limit = max(1, min(limit, MaxList))
	upper, last, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	// Jobs of the same microsecond as the last one come again; they are told
	// from new ones by their ids, which Redis orders within one score.
	ids, err := s.rdb.ZRevRangeByScoreWithScores(ctx, indexKey, &redis.ZRangeBy{
		Max: upper, Min: "-inf", Count: int64(limit) + sameScore,
	}).Result()
	if err != nil {
		return nil, "", unavailable("list jobs", err)
	}
	var page []jobs.ID
	for _, z := range ids {
		id, _ := z.Member.(string)
		if last != "" && formatScore(z.Score) == upper && id >= last {
			continue
		}
		if len(page) == limit {
			break
		}
		page = append(page, jobs.ID(id))
		next = formatScore(z.Score) + "/" + id
	}
	if len(page) == 0 {
		return nil, "", nil
	}
	if len(page) < limit {
		next = ""
	}
	found, err = s.Entries(ctx, page)
	return found, next, err
}

// sameScore is how many jobs may share one microsecond before a page of a list
// comes out short.
const sameScore = 64

func formatScore(f float64) string { return strconv.FormatInt(int64(f), 10) }

func parseCursor(cursor string) (upper, last string, err error) {
	if cursor == "" {
		return "+inf", "", nil
	}
	upper, last, ok := strings.Cut(cursor, "/")
	if _, bad := strconv.ParseInt(upper, 10, 64); bad != nil || !ok {
		return "", "", fmt.Errorf("cursor %.40q is not one that a list has returned", cursor)
	}
	if _, bad := jobs.ParseID(last); bad != nil {
		return "", "", fmt.Errorf("cursor %.40q is not one that a list has returned", cursor)
	}
	return upper, last, nil
}

// LogLine is one line of a job's log.
type LogLine struct {
	Pos  string // its place in the log, for the next call of Log
	Time time.Time
	Text string
}

// Log returns up to limit lines of a job's log that come after the place named
// after, oldest first; an empty after begins with the oldest line kept. A job
// without a log has no lines, which is no error.
func (s *Store) Log(ctx context.Context, id jobs.ID, after string, limit int) ([]LogLine, error) {
	from := "-"
	if after != "" {
		from = "(" + after
	}
	entries, err := s.rdb.XRangeN(ctx, logKey(id), from, "+", int64(limit)).Result()
	if err != nil {
		return nil, unavailable(fmt.Sprintf("read log of job %s", id), err)
	}
	lines := make([]LogLine, len(entries))
	for i, e := range entries {
		text, _ := e.Values["line"].(string)
		ms, _, _ := strings.Cut(e.ID, "-")
		n, _ := strconv.ParseInt(ms, 10, 64)
		lines[i] = LogLine{Pos: e.ID, Time: time.UnixMilli(n).UTC(), Text: text}
	}
	return lines, nil
}
