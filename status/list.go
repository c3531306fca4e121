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
	Kind   jobs.Kind  // empty for any; UnknownKind also for those whose kind is not on record
	Limit  int        // 1 to MaxList
	Cursor string     // where an earlier page ended; empty for the first
	Until  time.Time  // only jobs that were created before; zero for any. The walk begins there.
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
// more when it finds entries to repair.
func (s *Store) List(ctx context.Context, q Query) (found []Entry, next string, err error) {
	from, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if until := q.until(); until.Score < from.Score {
		from = until
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
	got, err := s.run(ctx, "list jobs", redisdb.PageScript, []string{key}, from.Score, from.ID, look+1, old.UnixMicro(), far+1)
	if err != nil {
		return nil, "", err
	}
	entries := got.Places()
	if len(entries) > look+1 {
		look = far
	}
	more := len(entries) > look
	entries = entries[:min(len(entries), look)]
	members := make([]string, 0, len(entries))
	for young := 0; len(members) < len(entries) && (q.Kind != "" || young < limit); {
		e := entries[len(members)]
		if !created(e).Before(old) {
			young++
		}
		members = append(members, e.ID)
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
			r.Created = created(entries[i])
		}
		found = append(found, r.Entry)
	}
	_ = s.repair(ctx, wrong) // the page is right without it
	if more && from.ID == "" {
		from = redisdb.Place{Score: redisdb.Beyond - 1, ID: "0"} // all were no ids, and are gone now
	}
	if more {
		next = cursorOf(from)
	}
	return found, next, nil
}

// until returns the place before which a list begins, whatever its cursor says.
func (q Query) until() redisdb.Place {
	if q.Until.IsZero() || q.Until.After(time.UnixMicro(redisdb.Beyond)) {
		return redisdb.Place{Score: redisdb.Beyond}
	}
	return redisdb.Place{Score: max(0, q.Until.UnixMicro())}
}

// created returns when the job of an entry was, whose score is in microseconds since 1970.
func created(e redisdb.Place) time.Time { return time.UnixMicro(e.Score).UTC() }

func cursorOf(p redisdb.Place) string { return strconv.FormatInt(p.Score, 10) + "/" + p.ID }

func parseCursor(cursor string) (redisdb.Place, error) {
	if cursor == "" {
		return redisdb.Place{Score: redisdb.Beyond}, nil
	}
	score, id, ok := strings.Cut(cursor, "/")
	n, err := strconv.ParseUint(score, 10, 53)
	if _, bad := jobs.ParseID(id); !ok || err != nil || bad != nil {
		return redisdb.Place{}, fmt.Errorf("cursor %.40q: %w", cursor, ErrCursor)
	}
	return redisdb.Place{Score: int64(n), ID: id}, nil //nolint:gosec // 53 bits
}
