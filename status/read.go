package status

import (
	"context"
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
	// Created is when the fleet first heard of the job, or when its sender says
	// that it was submitted. Lists are in this order.
	Created time.Time
	Document
	Detail Detail
	// Silent is for how long nothing was heard of the worker of a running job, if that is
	// longer than SilentAfter; 0 otherwise.
	Silent time.Duration
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
	Damaged   *int      // pages with a warning, of a document that is damaged; nil of others
	Asked     int       // how many pages it was asked for; 0 for the kind's own choice
	Code      string    // what kind of failure it was, if its handler has said so
	Created   time.Time // see Entry; zero for a job that an earlier version recorded
	Submitted time.Time
	Started   time.Time // of the last attempt
	Finished  time.Time
	Sent      time.Time // when its message was last published again, because there seemed to be none
	Resent    int       // how often it was
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
// round trip. Those of which nothing is known are left out; a document that
// cannot be read has no status, and says so.
func (s *Store) Entries(ctx context.Context, ids []jobs.ID) ([]Entry, error) {
	members := make([]string, len(ids))
	for i, id := range ids {
		members[i] = string(id)
	}
	seen, err := s.read(ctx, members)
	if err != nil {
		return nil, err
	}
	var found []Entry
	for _, r := range seen {
		if r.found == readable || r.found == unreadable {
			found = append(found, r.Entry)
		}
	}
	return found, nil
}

// found says what is at the key of a job.
type found uint8

const (
	nothing    found = iota + 1
	foreign          // no string, so it is not ours
	unreadable       // a string, but none of our documents
	readable
)

// record is what was found of a member of the index.
type record struct {
	Entry
	claim
	found found
}

// read returns what is on record of jobs, in one round trip and in their order.
// Of each at most maxDocument bytes are read, because the key is public: there
// may be anything.
func (s *Store) read(ctx context.Context, members []string) ([]record, error) {
	docs := make([]*redis.StringCmd, len(members))
	details := make([]*redis.MapStringStringCmd, len(members))
	claims, err := s.claims(ctx, members, func(pipe redis.Pipeliner, i int, id jobs.ID) {
		docs[i], details[i] = pipe.GetRange(ctx, jobKey(id), 0, maxDocument), pipe.HGetAll(ctx, detailKey(id))
	})
	if err != nil {
		return nil, unavailable("read job "+members[0], err)
	}
	seen := make([]record, len(members))
	for i, m := range members {
		r := record{Entry: Entry{ID: jobs.ID(m), Detail: parseDetail(details[i].Val())}, claim: claims[i], found: readable}
		_, noID := jobs.ParseID(m)
		switch text, err := docs[i].Result(); {
		case noID != nil:
			r.found = nothing // nobody asks for such a job
		case err != nil:
			r.found = foreign
		case text == "":
			r.found = nothing
		default:
			var ok bool
			if r.Document, ok = parseDocument(text); !ok {
				r.found, r.Document = unreadable, Document{Message: "unreadable status"}
			}
			r.Created = r.Detail.created()
			if r.silent > SilentAfter && r.State() == jobs.Running {
				r.Silent = r.silent
			}
		}
		seen[i] = r
	}
	return seen, nil
}

// created returns the first time known of a job.
func (d Detail) created() time.Time {
	for _, t := range []time.Time{d.Created, d.Submitted, d.Started, d.Finished} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
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
		Kind: jobs.Kind(f["kind"]), Input: fromPieces(f, "input"), Worker: f["worker"], Trace: f["trace"], Step: f["step"],
		Attempt: number("attempt"), Crashes: number("crashes"), Pages: number("pages"), Asked: number("asked_pages"),
		Code: f["code"], Created: moment("created_at"),
		Submitted: moment("submitted_at"), Started: moment("started_at"), Finished: moment("finished_at"),
		Sent: moment("sent_at"), Resent: number("sent_times"),
		Steps: map[string]time.Time{},
	}
	if _, ok := f["damaged"]; ok {
		d.Damaged = new(number("damaged"))
	}
	for name := range f {
		if step, ok := strings.CutPrefix(name, "at_"); ok {
			d.Steps[step] = d.Started.Add(time.Duration(number(name)) * time.Millisecond)
		}
	}
	return d
}
