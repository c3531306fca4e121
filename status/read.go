package status

import (
	"context"
	"fmt"
	"io/fs"
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

// Entries returns what is on record of several jobs, in their order, in one round trip.
// Unknown ones are left out; a document that cannot be read has no status, and its
// Detail tells why.
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
func (s *Store) read(ctx context.Context, members []string, claimFields ...string) ([]record, error) {
	return s.readBeside(ctx, members, nil, claimFields...)
}

// readBeside is read with what beside adds to the round trip; that may be nil.
func (s *Store) readBeside(ctx context.Context, members []string, beside func(redis.Pipeliner), claimFields ...string) ([]record, error) {
	docs := make([]*redis.StringCmd, len(members))
	details := make([]*redis.MapStringStringCmd, len(members))
	claims, err := s.claims(ctx, members, func(pipe redis.Pipeliner, i int, id jobs.ID) {
		if i == 0 && beside != nil {
			beside(pipe)
		}
		docs[i], details[i] = pipe.GetRange(ctx, jobKey(id), 0, maxDocument), pipe.HGetAll(ctx, detailKey(id))
	}, claimFields...)
	if err != nil {
		return nil, unavailable("read job "+members[0], err)
	}
	seen := make([]record, len(members))
	for i, m := range members {
		seen[i] = record{Entry: Entry{ID: jobs.ID(m), Detail: parseDetail(details[i].Val())}, claim: claims[i], found: readable}
		r := &seen[i]
		_, noID := jobs.ParseID(m)
		switch text, err := docs[i].Result(); {
		case noID != nil:
			r.found = nothing // no job has such an id
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
	}
	return seen, nil
}
