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
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// TTL is how long the keys of a job outlive the last write: 24 hours, as the
// contract says.
const TTL = 24 * time.Hour

// DefaultLogCap is how many bytes of a job's log are kept: the newest 5 MB.
const DefaultLogCap = 5_000_000

// Store reads and writes the state of jobs. Its methods may be called
// concurrently. An error that wraps [jobs.ErrUnavailable] means that Redis
// could not be asked; nothing is known then about what was written.
type Store struct {
	rdb redis.UniversalClient

	MaxCrashes int    // starts of a job that may end without a word before it is given up; at least 1
	LogCap     int    // bytes of log kept per job
	Worker     string // who claims jobs through this store, for people to read
}

// New returns a store that talks through rdb. The caller closes rdb.
func New(rdb redis.UniversalClient) *Store {
	return &Store{rdb: rdb, MaxCrashes: 3, LogCap: DefaultLogCap}
}

// Options says which Redis server to use.
type Options struct {
	Host     string
	Port     int
	DB       int
	Username string
	Password string
	TLS      bool
	Pool     int // connections at most; 0 for the client's default of ten per CPU
}

// Connect returns a client for the server that o names. It does not wait for
// the server: the first command does.
//
// A command that fails is tried once more on a fresh connection, because the
// pooled one may be a leftover from before a restart. All further patience is
// the caller's, who knows what waiting costs.
func Connect(o Options) *redis.Client {
	var conf *tls.Config
	if o.TLS {
		conf = &tls.Config{ServerName: o.Host, MinVersion: tls.VersionTLS12}
	}
	return redis.NewClient(&redis.Options{
		Addr:                  net.JoinHostPort(o.Host, strconv.Itoa(o.Port)),
		DB:                    o.DB,
		Username:              o.Username,
		Password:              o.Password,
		TLSConfig:             conf,
		PoolSize:              o.Pool,
		MaxRetries:            1,
		MinRetryBackoff:       -1,
		MaxRetryBackoff:       -1,
		DialerRetries:         1,
		DialTimeout:           3 * time.Second,
		ReadTimeout:           3 * time.Second,
		WriteTimeout:          3 * time.Second,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true, // two commands per connection that old servers refuse
	})
}

// Check returns nil if Redis answers and accepts writes.
func (s *Store) Check(ctx context.Context) error {
	if err := check(ctx, s.rdb).Err(); err != nil {
		return unavailable("check redis", err)
	}
	return nil
}

// check is a write. A PING is answered by a read-only replica too, and by a server
// that is out of memory.
func check(ctx context.Context, rdb redis.Cmdable) *redis.StatusCmd {
	return rdb.Set(ctx, "batchfleet:check", "1", time.Minute)
}

// unavailable wraps an error of the Redis client.
func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
}
