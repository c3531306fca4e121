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
	RequestID string // the same one again returns the leases it has got, if they are still held; may be empty
	Renews    bool   // the worker extends its lease
	Inputs    bool   // it runs jobs with several inputs, too
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

// maxLeasedBytes is after how many bytes of payloads a call gets no more jobs.
const maxLeasedBytes = 1 << 20

// Lease hands the oldest job of a kind to the caller, after moving to the queue what the
// delay set holds for now. Without a job it returns a Grant without one. The error
// is [ErrManyLeases] when the caller holds as many as one may.
func (q *Queue) Lease(ctx context.Context, c Caller, req LeaseRequest) (Grant, error) {
	grants, worker, err := q.LeaseJobs(ctx, c, req, 1)
	if len(grants) == 0 {
		return Grant{Worker: worker}, err
	}
	return grants[0], err
}

// LeaseJobs is Lease for up to most jobs, [MaxBatch] at most. It returns fewer when there are
// fewer, when the caller may hold no more, or when their payloads reach a mebibyte. It returns more
// when an earlier call with the same request id has got more. worker is the caller's id if there is no job.
func (q *Queue) LeaseJobs(ctx context.Context, c Caller, req LeaseRequest, most int) (grants []Grant, worker string, err error) {
	for range maxStale {
		call := workerCall{c, q.leaseArgs(req, most)}
		var a scriptReply
		if most == 1 {
			a = q.do(ctx, q.leases, call)
		} else {
			a = q.runEach(ctx, "lease jobs", leaseScript, q.leaseRules(), []workerCall{call})[0]
		}
		if a.err != nil {
			return nil, "", a.err
		}
		switch a.Text(0) {
		case "leases":
			grants, err := grantsOf(a)
			return grants, "", err
		case "none", "off":
			return nil, a.Text(1), nil
		case "full":
			return nil, "", fmt.Errorf("%w: %d", ErrManyLeases, q.MaxLeases)
		case "again":
		default:
			return nil, "", unexpected("lease job", a.Reply)
		}
	}
	return nil, "", nil
}

// leaseRules are the arguments of the script that all calls share.
func (q *Queue) leaseRules() []any {
	return []any{text(q.Now()), q.ResultTTL.Milliseconds(), promoteLimit, q.MaxLeases, maxLeasedBytes}
}

// leaseArgs are those of one call.
func (q *Queue) leaseArgs(req LeaseRequest, most int) []any {
	ttl := q.LegacyTTL
	if req.Renews {
		ttl = q.LeaseTTL
	}
	leases := make([]any, most)
	for i := range leases {
		leases[i] = newID()
	}
	request, known := any(req.RequestID), requestTTL
	if req.RequestID == "" {
		request, known = leases[0], resendTTL
	}
	kinds := []any{string(KindZPE)}
	if len(req.Kinds) > 0 {
		kinds = make([]any, len(req.Kinds))
		for i, kind := range req.Kinds {
			kinds[i] = cmp.Or(string(kind), string(KindZPE))
		}
	}
	args := []any{request, seconds(ttl), unix(q.Now().Add(ttl)), known.Milliseconds(), len(kinds), most, req.Inputs}
	return append(append(args, kinds...), leases...)
}

func grantsOf(a scriptReply) ([]Grant, error) {
	grants := make([]Grant, 0, len(a.Reply)-1)
	for _, v := range a.Reply[1:] {
		one, ok := v.([]any)
		if !ok {
			return nil, unexpected("lease job", a.Reply)
		}
		grants = append(grants, grantOf(one))
	}
	return grants, nil
}

func grantOf(a redisdb.Reply) Grant {
	crashes, _ := strconv.Atoi(a.Text(5))
	failures, _ := strconv.Atoi(a.Text(7))
	return Grant{
		Job: jobs.ID(a.Text(0)), Kind: plain(a.Text(6)), Payload: a.Text(1), LeaseID: a.Text(2),
		TTL: parseSeconds(a.Text(3)), Until: parseUnix(a.Text(4)), Retries: crashes + failures, Failures: failures,
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

// Heartbeat is a [Beat] for one lease.
type Heartbeat struct {
	Job   jobs.ID
	Lease string
	Beat
}

// Extend makes a lease last longer. The error is [jobs.ErrLeaseLost] when the
// lease is not the caller's (any more), and wraps it as [ErrJobTimeout] when the
// job has had its time.
func (q *Queue) Extend(ctx context.Context, c Caller, id jobs.ID, lease string, b Beat) (Extended, error) {
	now := q.Now()
	return extendedOf(now, q.do(ctx, q.beats, beatCall(c, Heartbeat{id, lease, b})))
}

// ExtendAll is Extend for several leases, [MaxBatch] at most. Each has its own answer.
func (q *Queue) ExtendAll(ctx context.Context, c Caller, beats []Heartbeat) ([]Extended, []error) {
	calls := make([]workerCall, len(beats))
	for i, b := range beats {
		calls[i] = beatCall(c, b)
	}
	now := q.Now()
	extended, errs := make([]Extended, len(beats)), make([]error, len(beats))
	for i, a := range q.runEach(ctx, "extend leases", heartbeatScript, q.beatRules(), calls) {
		extended[i], errs[i] = extendedOf(now, a)
	}
	return extended, errs
}

// beatRules are the arguments of the script that all calls share.
func (q *Queue) beatRules() []any {
	now := q.Now()
	return []any{
		text(now), q.ResultTTL.Milliseconds(), seconds(q.LeaseTTL), unix(now.Add(q.LeaseTTL)), seconds(q.JobTimeout), unix(now.Add(-q.Skew)),
	}
}

func beatCall(c Caller, b Heartbeat) workerCall {
	done := ""
	if b.Done != 0 || b.Total != 0 {
		done = strconv.Itoa(b.Done)
	}
	return workerCall{c, []any{string(b.Job), b.Lease, b.Message, done, strconv.Itoa(b.Total), string(c.Kind)}}
}

func extendedOf(now time.Time, a scriptReply) (Extended, error) {
	if a.err != nil {
		return Extended{}, a.err
	}
	switch a.Text(0) {
	case "ok":
		ttl := parseSeconds(a.Text(2))
		return Extended{TTL: ttl, Until: now.Add(ttl), Cancel: a.Number(1) == 1}, nil
	case "timeout":
		return Extended{}, ErrJobTimeout
	}
	return Extended{}, unexpected("extend lease", a.Reply)
}
