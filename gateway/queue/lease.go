package queue

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

// LeaseRequest asks for a job.
type LeaseRequest struct {
	RequestID string // the same one again returns the lease it has got, if it is still held; may be empty
	Renews    bool   // the worker extends its lease
	// Kinds are those that the worker runs, each once; empty for zpe alone. Of several that
	// have a job it gets one of each in turn.
	Kinds []jobs.Kind
}

// Grant is a lease on a job.
type Grant struct {
	Job     jobs.ID
	Kind    jobs.Kind
	Payload string
	LeaseID string
	TTL     time.Duration
	Until   time.Time
	Retries int // earlier runs that failed or whose lease was lost
	// Failures are those of them that were failures which the kind allows: see [Failure].
	Failures int
	// Worker is who asked, when there is no job.
	Worker string
}

// maxStale bounds how many calls one Lease makes over entries of the queue that
// are not to be run, 32 a call.
const maxStale = 1000

// A request id is known for requestTTL. A call without one gets its own, for the
// time in which the client of Redis may send a command again whose answer was lost.
const (
	requestTTL = 10 * time.Minute
	resendTTL  = 30 * time.Second
)

// Lease hands the oldest job of a kind to the caller, after moving to the queue what the
// delay set holds for now. Without a job it returns a Grant without one. The error
// is [ErrManyLeases] when the caller holds as many as one may.
func (q *Queue) Lease(ctx context.Context, c Caller, req LeaseRequest) (Grant, error) {
	ttl := q.LegacyTTL
	if req.Renews {
		ttl = q.LeaseTTL
	}
	lease := newID()
	request, known := req.RequestID, requestTTL
	if request == "" {
		request, known = lease, resendTTL
	}
	kinds := []any{string(KindZPE)}
	if len(req.Kinds) > 0 {
		kinds = make([]any, len(req.Kinds))
		for i, kind := range req.Kinds {
			kinds[i] = cmp.Or(string(kind), string(KindZPE))
		}
	}
	for range maxStale {
		now := q.Now()
		args := []any{
			lease, request, seconds(ttl), unix(now.Add(ttl)), q.ResultTTL.Milliseconds(), text(now), promoteLimit, known.Milliseconds(), q.MaxLeases,
		}
		a, err := q.runAs(ctx, c, "lease job", leaseScript, []string{queueKey, delayKey, indexKey, opsKey}, append(args, kinds...)...)
		if err != nil {
			return Grant{}, err
		}
		switch a.Text(0) {
		case "lease":
			return grantOf(a), nil
		case "none", "off":
			return Grant{Worker: a.Text(1)}, nil
		case "full":
			return Grant{}, fmt.Errorf("%w: %d", ErrManyLeases, q.MaxLeases)
		case "again":
		default:
			return Grant{}, unexpected("lease job", a)
		}
	}
	return Grant{}, nil
}

func grantOf(a redisdb.Reply) Grant {
	crashes, _ := strconv.Atoi(a.Text(6))
	failures, _ := strconv.Atoi(a.Text(8))
	return Grant{
		Job: jobs.ID(a.Text(1)), Kind: plain(a.Text(7)), Payload: a.Text(2), LeaseID: a.Text(3),
		TTL: parseSeconds(a.Text(4)), Until: parseUnix(a.Text(5)), Retries: crashes + failures, Failures: failures,
	}
}

func parseUnix(s string) time.Time {
	f, _ := strconv.ParseFloat(s, 64)
	return fromUnix(f)
}

func parseSeconds(s string) time.Duration {
	f, _ := strconv.ParseFloat(s, 64)
	return time.Duration(math.Round(f * float64(time.Second)))
}

// Beat is what a heartbeat tells.
type Beat struct {
	Message     string // for people; the last one stays when empty
	Done, Total int    // steps; not told when both are 0
}

// Extended is a lease that lasts longer.
type Extended struct {
	TTL    time.Duration // from now: LeaseTTL, or what the lease was given out for if that is longer
	Until  time.Time
	Cancel bool // the job is to be canceled
}

// Extend makes a lease last longer. The error is [jobs.ErrLeaseLost] when the
// lease is not the caller's (any more), and wraps it as [ErrJobTimeout] when the
// job has had its time.
func (q *Queue) Extend(ctx context.Context, c Caller, id jobs.ID, lease string, b Beat) (Extended, error) {
	now := q.Now()
	done := ""
	if b.Done != 0 || b.Total != 0 {
		done = strconv.Itoa(b.Done)
	}
	a, err := q.runAs(ctx, c, "extend lease", heartbeatScript,
		[]string{leaseKey(id), indexKey, statusKey(id), payloadKey(id), retryKey(id)},
		string(id), lease, seconds(q.LeaseTTL), unix(now.Add(q.LeaseTTL)), q.ResultTTL.Milliseconds(), text(now), seconds(q.JobTimeout),
		unix(now.Add(-q.Skew)), b.Message, done, strconv.Itoa(b.Total), string(c.Kind))
	if err != nil {
		return Extended{}, err
	}
	switch a.Text(0) {
	case "ok":
		ttl := parseSeconds(a.Text(2))
		return Extended{TTL: ttl, Until: now.Add(ttl), Cancel: a.Number(1) == 1}, nil
	case "timeout":
		return Extended{}, ErrJobTimeout
	}
	return Extended{}, unexpected("extend lease", a)
}
