package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// The states by which jobs are listed.
const (
	Queued   = "queued"
	Started  = "started"
	Finished = "finished"
	Failed   = "failed"   // and not canceled
	Canceled = "canceled" // its status is failed and its detail canceled
)

// States are those of [ListQuery].
var States = []string{Queued, Started, Finished, Failed, Canceled}

// MaxList is how many jobs one page may have.
const MaxList = 1000

// ErrCursor says that a cursor is none that List has returned.
var ErrCursor = errors.New("no page of the list has such a cursor")

// ListQuery says which jobs to list.
type ListQuery struct {
	State  string // one of States; empty for all jobs
	Others bool   // the jobs of all kinds but zpe, instead of those of zpe
	Limit  int    // 1 to MaxList
	Cursor string // the next of an earlier page, of any State; empty for the first
	// Until selects those that were created before. The list begins there, at no cost; zero for the newest.
	Until time.Time
}

// List returns jobs, the newest first: by the millisecond they were created in,
// then by id, both descending. What is returned of a job is what [Queue.Jobs]
// does. next is where the list goes on, and empty at its end. New jobs and those
// that change their state move no other one to another page.
//
// A page is shorter than the limit when jobs have expired or have changed their
// state while it was read; that may be all of them. It takes three round trips,
// and one more when entries of expired jobs are dropped, however many jobs there are.
func (q *Queue) List(ctx context.Context, lq ListQuery) (page []Job, next string, err error) {
	if lq.Limit < 1 || lq.Limit > MaxList {
		return nil, "", fmt.Errorf("list jobs: limit %d is not from 1 to %d", lq.Limit, MaxList)
	}
	var keys []string
	for _, state := range States {
		if lq.State == "" || lq.State == state {
			keys = append(keys, listKey(state, lq.Others))
		}
	}
	after, id, err := parseCursor(lq.Cursor)
	if err != nil {
		return nil, "", err
	}
	after, id = earlier(after, id, lq.Until)
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	a, err := q.run(ctx, "list jobs", pageScript, keys, after, id, lq.Limit+1, 0, lq.Limit+1)
	if err != nil {
		return nil, "", err
	}
	entries := a.Places() // a job that is in two lists, as only damage can bring about, counts once
	if len(entries) > lq.Limit {
		entries = entries[:lq.Limit]
		last := entries[lq.Limit-1]
		if _, err := ParseID(last.ID); err != nil { // a cursor cannot name it
			last.ID = "0"
		}
		next = strconv.FormatInt(last.Score, 10) + "." + last.ID
	}
	if len(entries) == 0 {
		return nil, "", nil
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	read, err := q.jobs(ctx, ids, false)
	if err != nil {
		return nil, "", err
	}
	var gone []any
	for _, j := range read {
		switch {
		case j.unread != nil: // fsck says what is wrong with it
		case j.Status == "":
			gone = append(gone, string(j.ID))
		case lq.State == "" || j.State() == lq.State:
			page = append(page, j)
		}
	}
	if len(gone) > 0 {
		// The reaper will, if this does not come to it.
		_, _ = q.run(ctx, "drop expired jobs", unlistScript, nil, append([]any{"ids"}, gone...)...)
	}
	return page, next, nil
}

// parseCursor reads the place of a job in a list: when it was created in unix ms, a
// dot, and its id.
func parseCursor(s string) (ms, id string, err error) {
	if s == "" {
		return strconv.Itoa(redisdb.Beyond), "", nil
	}
	ms, id, _ = strings.Cut(s, ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != ms {
		return "", "", ErrCursor
	}
	if _, err := jobs.ParseID(id); err != nil {
		return "", "", ErrCursor
	}
	return ms, id, nil
}

// earlier returns the place of a cursor, or that before which jobs were created until a moment, whichever comes later in
// the list.
func earlier(ms, id string, until time.Time) (string, string) {
	if until.IsZero() {
		return ms, id
	}
	// Those of the millisecond in which the moment lies have begun before it.
	most := max(0, until.Add(time.Millisecond-1).UnixMilli())
	if at, _ := strconv.ParseInt(ms, 10, 64); at < most {
		return ms, id
	}
	return strconv.FormatInt(most, 10), ""
}

// unlistLimit is how many entries one script looks at: Redis serves no other call
// meanwhile.
const unlistLimit = 100

// Place is how far [Queue.Unlist] has come. The zero value is the beginning.
type Place struct {
	list, passed int
	kind         jobs.Kind // whose dead letters
}

// The lists of the states come first, of zpe and of other kinds, and then dead letters.
var letters = 2 * len(States)

// End reports whether all lists have been looked through.
func (p Place) End() bool { return p.list > letters }

// afterLetters returns the place behind the dead letters of a kind: those of the next kind
// that has any.
func (q *Queue) afterLetters(ctx context.Context, kind jobs.Kind) (Place, error) {
	kinds, err := q.kindsIn(ctx, dlqKindsKey)
	for _, k := range kinds {
		if k > kind {
			return Place{list: letters, kind: k}, err
		}
	}
	return Place{list: letters + 1}, err
}

// kindsIn returns the kinds in a set, in order.
func (q *Queue) kindsIn(ctx context.Context, key string) ([]jobs.Kind, error) {
	names, err := q.rdb.SMembers(ctx, key).Result()
	slices.Sort(names)
	kinds := make([]jobs.Kind, len(names))
	for i, name := range names {
		kinds[i] = jobs.Kind(name)
	}
	return kinds, unavailable("read kinds", err)
}

// kindCost is for how many entries a look at a kind's dead letters counts, so that one
// round is short also with many kinds.
const kindCost = 50

// Unlist drops the entries of jobs that have expired from the lists, also from that of
// dead letters. It looks at a
// thousand at most of those that are older than what expires, from a place on,
// and returns the one at which to go on. The end is also the beginning.
func (q *Queue) Unlist(ctx context.Context, at Place) (next Place, dropped int, err error) {
	old := strconv.FormatInt(q.Now().Add(-q.ResultTTL).UnixMilli(), 10)
	if at.End() {
		at = Place{}
	}
	for seen := 0; seen < 10*unlistLimit && !at.End(); {
		var a redisdb.Reply
		if at.list < letters {
			list := listKey(States[at.list%len(States)], at.list >= len(States))
			a, err = q.run(ctx, "drop expired jobs", unlistScript, nil, list, at.passed, unlistLimit, old)
		} else {
			a, err = q.run(ctx, "drop expired dead letters", unlistDeadScript, []string{dlqOf(at.kind)}, at.passed, unlistLimit, string(at.kind))
		}
		if err != nil {
			return at, dropped, err
		}
		n, gone := int(a.Number(0)), int(a.Number(1))
		if at.list == letters && gone == 0 {
			n = 0 // the oldest come first, and those after them have not expired either
		}
		seen += n
		dropped += gone
		at.passed += n - gone // what has gone has moved the others up
		switch {
		case n >= unlistLimit:
		case at.list < letters:
			at = Place{list: at.list + 1}
		default:
			seen += kindCost
			if at, err = q.afterLetters(ctx, at.kind); err != nil {
				return at, dropped, err
			}
		}
	}
	return at, dropped, nil
}

// cancelsKept is how long a request to stop a running job is listed for gateways
// that have not looked yet.
const cancelsKept = time.Minute

// Cancels returns the running jobs that somebody has asked to be stopped after the
// moment since, and the moment of this look, both by the clock of Redis in unix
// ms: 0 returns all of the last minute. It is one round trip, whose cost does not
// depend on how many jobs run.
func (q *Queue) Cancels(ctx context.Context, since int64) (ids []jobs.ID, at int64, err error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.TxPipeline()
	now := pipe.Time(ctx)
	list := pipe.ZRangeByScore(ctx, cancelsKey, &redis.ZRangeBy{Min: "(" + strconv.FormatInt(since, 10), Max: "+inf"})
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, unavailable("look for canceled jobs", err)
	}
	for _, id := range list.Val() {
		ids = append(ids, jobs.ID(id))
	}
	return ids, now.Val().UnixMilli(), nil
}
