// Package queue keeps the jobs of a gateway in Redis: the queue, who holds which
// job under which lease, what came of it, and whose tokens are good. Redis alone
// holds state; any number of gateways may work on one server and die at any time.
//
// A job is in exactly one place: in the queue, under a lease, in the delay set,
// among the dead letters, or ended. Everything that moves it is one Lua script,
// so there is no moment in between. [Queue.Fsck] proves it.
//
// A lease is the pair of a worker and a random lease id, the fence of all that
// the worker reports; the clock does not decide. Its end matters only to
// [Queue.Reap], which takes back what has ended.
//
// The keys are a contract, listed in gateway/SPEC.md. The scripts name keys that
// they learn from the queue, so the server must not be a cluster.
package queue

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// Queue is a gateway's state in Redis. Its methods may be called concurrently.
// An error that wraps [jobs.ErrUnavailable] means that Redis could not be asked;
// nothing is known then about what was written, and asking again is safe.
type Queue struct {
	rdb redis.UniversalClient
	// Now is the clock; several gateways on one Redis need theirs to agree within
	// Rules.Skew and a third of Rules.LeaseTTL.
	Now func() time.Time
	// OnUnreplicated is called when a submission, a result or a registration was answered
	// although no replica had it in time. It may be nil.
	OnUnreplicated func()
	// OnReplicasUnknown is called once when Redis refuses to say whether it has replicas
	// (ROLE): nothing waits for one then. It may be nil.
	OnReplicasUnknown func()
	// CallTimeout bounds a call whose context has no deadline of its own; 5 s.
	CallTimeout time.Duration
	// ReplicaWait is how long those wait for a replica, if there is one; 1 s.
	ReplicaWait time.Duration
	Rules

	replicas               replicas
	leases, beats, results *line
}

// Rules are the numbers of a queue.
type Rules struct {
	LeaseTTL       time.Duration // of a lease whose worker extends it; 600 s
	LegacyTTL      time.Duration // of one whose worker does not; JobTimeout when 0
	JobTimeout     time.Duration // from a job's first lease, after which it is not extended; 24 h
	ResultTTL      time.Duration // how long results, payloads and statuses are kept after the last change, longer than any lease; 7 days
	LateTTL        time.Duration // how long a late result is kept aside; 24 h
	Skew           time.Duration // how long after its end a lease is taken back; 5 s
	MaxRetries     int           // how often a job is run again after a failure or a lost lease; 3
	MaxQueued      int           // jobs in the queue, more are refused; 5 million
	MaxLeases      int           // leases of one worker, which gets no more; 64
	TokenTTL       time.Duration // of worker tokens; 7 days
	IdempotencyTTL time.Duration // of an Idempotency-Key; 24 h
}

// DefaultRules are those of the contract.
var DefaultRules = Rules{
	LeaseTTL: 600 * time.Second, JobTimeout: 24 * time.Hour, ResultTTL: 7 * 24 * time.Hour, LateTTL: 24 * time.Hour,
	Skew: 5 * time.Second, MaxRetries: 3, MaxQueued: 5_000_000, MaxLeases: 64, TokenTTL: 7 * 24 * time.Hour,
	IdempotencyTTL: 24 * time.Hour,
}

// New returns the queue in the server that rdb talks to. The caller closes rdb, and
// has made it with ContextTimeoutEnabled: otherwise a server that does not answer is
// waited for beyond the deadline of a call.
func New(rdb redis.UniversalClient, rules Rules) *Queue {
	if rules.LegacyTTL == 0 {
		rules.LegacyTTL = rules.JobTimeout
	}
	q := &Queue{rdb: rdb, Now: time.Now, CallTimeout: 5 * time.Second, ReplicaWait: time.Second, Rules: rules}
	q.leases = q.newLine("lease jobs", leaseScript, q.leaseRules)
	q.beats = q.newLine("extend leases", heartbeatScript, q.beatRules)
	q.results = q.newLine("record results", finishScript, q.finishRules)
	return q
}

// The errors a caller tells apart, beside [jobs.ErrUnavailable] and
// [jobs.ErrLeaseLost].
var (
	ErrTokenUnknown    = errors.New("unknown token")
	ErrTokenExpired    = errors.New("token has expired")
	ErrTokenRevoked    = errors.New("token was revoked")
	ErrOtherWorker     = errors.New("the token belongs to another worker")
	ErrEnrollToken     = errors.New("enroll token is unknown, used up or expired")
	ErrNoJob           = errors.New("no such job")
	ErrNotDead         = fmt.Errorf("the job is no dead letter: %w", ErrNoJob)
	ErrNoUpload        = errors.New("no such upload")
	ErrIncomplete      = errors.New("an artifact has not arrived whole")
	ErrManyArtifacts   = errors.New("the job has as many artifacts as one may")
	ErrNoWorker        = errors.New("no such worker")
	ErrJobTimeout      = fmt.Errorf("job timeout: %w", jobs.ErrLeaseLost)
	ErrFinished        = errors.New("job has finished with another result")
	ErrReported        = errors.New("this failure was reported with other content")
	ErrKeyReused       = errors.New("idempotency key was used for another payload")
	ErrSubmissionOff   = errors.New("submission is disabled")
	ErrFull            = errors.New("queue is full")
	ErrManyLeases      = errors.New("the worker holds as many leases as one may")
	ErrPayloadMissing  = errors.New("payload has expired")
	ErrNotEnded        = errors.New("job has no result")
	ErrAlreadyFinished = errors.New("job has finished already")
)

// Caller is the worker on whose behalf a method is called: by its token, or by
// its name when it reaches Redis itself.
type Caller struct {
	TokenHash string // see HashToken; empty for a worker that needs no token
	Worker    string // then who it is
	Claimed   string // who the request says it is from; empty if it does not
	// Kind is that of the job which the request is about: one of another kind is unknown.
	Kind jobs.Kind
}

// ParseID checks that s can be a job's id: [jobs.ParseID], and not the last part
// of a key that is no job's.
func ParseID(s string) (jobs.ID, error) {
	id, err := jobs.ParseID(s)
	if err == nil && s == "index" {
		return "", errors.New(`job id must not be "index"`)
	}
	return id, err
}

// unix writes a moment as the scripts and keys have it: unix seconds to the
// millisecond. Lua's own conversion would lose digits.
func unix(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// fromUnix reads what unix wrote.
func fromUnix(s float64) time.Time { return time.UnixMilli(int64(s*1000 + 0.5)) }

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// text writes a moment for people.
func text(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
