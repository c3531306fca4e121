package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// Query says which jobs to list.
type Query struct {
	State  jobs.State // 0 for any
	Kind   jobs.Kind  // empty for any; UnknownKind also for those of which nobody has said it
	Limit  int        // 1 to MaxList
	Cursor string     // where an earlier page ended; empty for the first
}

// UnknownKind stands for the kind of a job that was submitted without one, until a
// worker claims it.
const UnknownKind jobs.Kind = "unknown"

// MaxList is how many jobs one call of List returns at most.
const MaxList = 200

// How many entries of the index one call looks at where most are likely to be left
// out: of forgotten jobs there is nothing to read, of those of another kind all.
const (
	lookOld  = 1000
	lookKind = 500
)

// ErrCursor says that a cursor is not one that a list has returned.
var ErrCursor = errors.New("not a cursor that a list has returned")

// List returns jobs, newest first and within one millisecond by id downwards, and
// a cursor for the next page, empty when there are no more. A page may be shorter
// than the limit, even empty, while there are more: one call looks at a bounded
// part of the index, whose entries may be of another kind or of jobs that are
// forgotten. Jobs that come in while pages are read disturb nothing. It takes two
// round trips however many jobs there are, with and without a state, and three
// more when it finds entries to mend.
func (s *Store) List(ctx context.Context, q Query) (found []Entry, next string, err error) {
	from, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	limit := max(1, min(q.Limit, MaxList))
	// Jobs that were created longer ago than a job is kept are likely to be
	// forgotten, and those of a kind may be rare: look further for them.
	old := time.Now().Add(-TTL)
	look, far := limit, lookOld
	if q.Kind != "" {
		look, far = lookKind, lookKind
	}
	key := indexKey
	if q.State != 0 {
		key = stateIndexKey(q.State)
	}
	entries, err := s.page(ctx, key, from, look+1, old, far+1)
	if err != nil {
		return nil, "", err
	}
	if len(entries) > look+1 {
		look = far
	}
	more := len(entries) > look
	entries = entries[:min(len(entries), look)]
	members := make([]string, 0, len(entries))
	for young := 0; len(members) < len(entries) && (q.Kind != "" || young < limit); {
		e := entries[len(members)]
		if !e.created().Before(old) {
			young++
		}
		members = append(members, e.id)
	}
	more = more || len(members) < len(entries)
	seen, err := s.read(ctx, members)
	if err != nil {
		return nil, "", err
	}
	var wrong []string
	for i, r := range seen {
		if len(found) == limit {
			more = true
			break
		}
		if _, bad := jobs.ParseID(members[i]); bad == nil {
			from = entries[i]
		}
		switch {
		case r.found == nothing, r.found == readable && q.State != 0 && r.State() != q.State:
			wrong = append(wrong, members[i])
			continue
		case r.found == foreign, r.found == unreadable && q.State != 0, q.Kind != "" && cmp.Or(r.Detail.Kind, UnknownKind) != q.Kind:
			continue
		}
		if r.Detail.Created.IsZero() {
			r.Created = entries[i].created()
		}
		found = append(found, r.Entry)
	}
	_ = s.mend(ctx, wrong) // the page is right without it
	if more && from.id == "" {
		from = place{maxScore, "0"} // all were no ids, and are gone now
	}
	if more {
		next = from.String()
	}
	return found, next, nil
}

// place is an entry of an index, and as a cursor the place of one.
type place struct {
	score int64 // microseconds since 1970
	id    string
}

// maxScore is the largest score that counts: a float64 and a cursor hold it exactly.
// What has another, or one below 0, is not of ours.
const maxScore = 1<<53 - 1

func (p place) created() time.Time { return time.UnixMicro(p.score).UTC() }

func (p place) String() string { return strconv.FormatInt(p.score, 10) + "/" + p.id }

// page returns up to count entries of an index that come after from, or its
// first when from is zero; up to far if the last of them is from before old.
func (s *Store) page(ctx context.Context, key string, from place, count int, old time.Time, far int) ([]place, error) {
	if from.id == "" {
		from.score = maxScore + 1
	}
	v, err := s.run(ctx, pageScript, []string{key}, []any{from.score, from.id, count, old.UnixMicro(), far}, nil)
	if err != nil {
		return nil, unavailable("list jobs", err)
	}
	list, _ := v.([]any)
	entries := make([]place, 0, len(list)/2)
	for a := redisdb.Answer(list); len(a) >= 2; a = a[2:] {
		f, err := strconv.ParseFloat(a.Text(1), 64)
		if err != nil {
			return nil, unavailable("list jobs", fmt.Errorf("unexpected score %.40q", a.Text(1)))
		}
		if f < 0 {
			break // and so are all that come after it
		}
		entries = append(entries, place{int64(f), a.Text(0)})
	}
	return entries, nil
}

func parseCursor(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	score, id, ok := strings.Cut(cursor, "/")
	n, err := strconv.ParseUint(score, 10, 53)
	if _, bad := jobs.ParseID(id); !ok || err != nil || bad != nil {
		return place{}, fmt.Errorf("cursor %.40q: %w", cursor, ErrCursor)
	}
	return place{int64(n), id}, nil //nolint:gosec // 53 bits
}
