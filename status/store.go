// Package status keeps what the fleet knows of each job in Redis: the status
// document that frontends poll, the claim that makes one worker the only one
// to run a job, the request to cancel it, its log and its details, and an
// index to list jobs newest first.
//
// The key job:ID with its JSON document is a public contract (see SPEC.md);
// every other key is private to this package. All keys of a job live in one
// hash slot and expire 24 hours after the last write. Absence means that
// nothing is known, not that the job does not exist: a job may be queued
// without anybody having told Redis.
//
// Everything that must not be torn apart runs as a script on the server. The
// scripts need Redis 6.2 or newer and read the time from the server, so the
// clocks of the workers do not matter.
package status

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// TTL is how long the keys of a job outlive the last write: 24 hours, as the
// contract says.
const TTL = 24 * time.Hour

// DefaultLogCap is how many bytes of a job's log are kept, 16 of each line for its time:
// the first of them, and then the newest.
const DefaultLogCap = 5_000_000

// Store reads and writes the state of jobs. Its methods may be called
// concurrently. An error that wraps [jobs.ErrUnavailable] means that Redis
// could not be asked; nothing is known then about what was written.
type Store struct {
	rdb      redis.UniversalClient
	together *together

	MaxCrashes int    // starts of a job that may end without a word before it is given up; at least 1
	LogCap     int    // bytes of log kept per job; see DefaultLogCap
	Worker     string // who claims jobs through this store, for people to read
	ID         string // the same for programs: no two processes have one
}

// New returns a store that talks through rdb. The caller closes rdb.
func New(rdb redis.UniversalClient) *Store {
	return &Store{rdb: rdb, together: new(together), MaxCrashes: 3, LogCap: DefaultLogCap, ID: rand.Text()}
}

// Check returns nil if Redis answers and accepts writes.
func (s *Store) Check(ctx context.Context) error {
	return unavailable("check redis", check(ctx, s.rdb).Err())
}

// check is a write. A PING is answered by a read-only replica too, and by a server
// that is out of memory.
func check(ctx context.Context, rdb redis.Cmdable) *redis.StatusCmd {
	return rdb.Set(ctx, "batchfleet:check", "1", time.Minute)
}

// unavailable wraps an error of the Redis client. That there is nothing at a key is none.
func unavailable(what string, err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
}
