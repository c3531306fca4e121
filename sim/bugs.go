package sim

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/storage"
)

// Bug is a planted one: it stands between a worker and what it works with, and lies to the
// one or forgets what the other asks for. The zero value is none.
type Bug struct {
	Name   string
	source func(fleetSource) fleetSource
	status func(*fleet, *process, fleetStatus) fleetStatus
	store  func(storage.Store) storage.Store

	plane     func(gateway.ControlPlane) gateway.ControlPlane
	noReplica bool // a failover loses what was waited for
}

// The planted bugs. Each breaks one promise that the ledger must miss.
var (
	// AckBeforeRecord says that an outcome is on record before it is.
	AckBeforeRecord = Bug{Name: "ack before the outcome is recorded", status: func(f *fleet, _ *process, s fleetStatus) fleetStatus {
		return eagerStatus{s, f}
	}}
	// NoFence lets an attempt write under whatever claim there is.
	NoFence = Bug{Name: "no fence on the writes of stale attempts", status: func(f *fleet, p *process, s fleetStatus) fleetStatus {
		return unfencedStatus{s, f.redis.client(p.link(toRedis))}
	}}
	// UncountedCrash gives the claims of silent workers back as if they had done so.
	UncountedCrash = Bug{Name: "a crash is not counted", status: func(f *fleet, p *process, s fleetStatus) fleetStatus {
		return forgivingStatus{s, f.redis.client(p.link(toRedis))}
	}}
	// FailureTwice counts a failed attempt twice.
	FailureTwice = Bug{Name: "a failure is counted twice", status: func(f *fleet, p *process, s fleetStatus) fleetStatus {
		return doublingStatus{s, f.redis.client(p.link(toRedis))}
	}}
	// NoWait lets a job run again at once whose attempt has failed.
	NoWait = Bug{Name: "the next attempt does not wait", status: func(f *fleet, p *process, s fleetStatus) fleetStatus {
		return hastyStatus{s, f.redis.client(p.link(toRedis))}
	}}
	// LostNack forgets to hand leases back.
	LostNack = Bug{Name: "a lost nack", source: func(s fleetSource) fleetSource { return forgetfulSource{s} }}
	// LateResult makes objects visible without a look at the lease and the claim.
	LateResult = Bug{Name: "the result of a stale attempt becomes visible", store: func(s storage.Store) storage.Store { return blindStore{s} }}

	// LostResult drops what an agent delivers, as if the gateway had it.
	LostResult = Bug{Name: "a result is dropped on its way", plane: func(p gateway.ControlPlane) gateway.ControlPlane { return lossyPlane{p} }}
	// NoReplica answers before a replica has what was submitted.
	NoReplica = Bug{Name: "an answer that no replica knows of", noReplica: true}
)

type eagerStatus struct {
	fleetStatus
	f *fleet
}

func (s eagerStatus) Finish(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	s.f.after(time.Second/10, func() { _, _ = s.fleetStatus.Finish(context.WithoutCancel(ctx), c, o) })
	return o.State, nil
}

// tokenOf returns the token of the claim on a job, as it is on record.
func tokenOf(ctx context.Context, rdb redis.UniversalClient, id jobs.ID) string {
	token, _ := rdb.HGet(ctx, "{job:"+string(id)+"}:claim", "token").Result()
	return record{token: token}.plain()
}

type unfencedStatus struct {
	fleetStatus
	rdb redis.UniversalClient
}

func (s unfencedStatus) Report(ctx context.Context, c jobs.Claim, hold time.Duration, p *jobs.Progress, lines jobs.Lines) error {
	err := s.fleetStatus.Report(ctx, c, hold, p, lines)
	if errors.Is(err, jobs.ErrLeaseLost) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		c.Token = tokenOf(ctx, s.rdb, c.Job)
		return s.fleetStatus.Report(ctx, c, hold, p, lines)
	}
	return err
}

func (s unfencedStatus) Finish(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	state, err := s.fleetStatus.Finish(ctx, c, o)
	if errors.Is(err, jobs.ErrLeaseLost) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		c.Token = tokenOf(ctx, s.rdb, c.Job)
		return s.fleetStatus.Finish(ctx, c, o)
	}
	return state, err
}

type forgivingStatus struct {
	fleetStatus
	rdb redis.UniversalClient
}

func (s forgivingStatus) Claim(ctx context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	c := jobs.Claim{Job: job.ID, Token: tokenOf(ctx, s.rdb, job.ID)}
	if c.Token != "" && c.Token != again.Token {
		if taken, _ := s.Lapse(ctx, c, false); taken {
			_ = s.Release(ctx, c, "")
		}
	}
	return s.fleetStatus.Claim(ctx, job, hold, again)
}

type doublingStatus struct {
	fleetStatus
	rdb redis.UniversalClient
}

func (s doublingStatus) Retry(ctx context.Context, c jobs.Claim, o jobs.Outcome) (jobs.State, error) {
	s.rdb.HIncrBy(ctx, "{job:"+string(c.Job)+"}:claim", "failures", 1)
	return s.fleetStatus.Retry(ctx, c, o)
}

type hastyStatus struct {
	fleetStatus
	rdb redis.UniversalClient
}

// Claim claims a job that waits as if its time had come.
func (s hastyStatus) Claim(ctx context.Context, job jobs.Job, hold time.Duration, again jobs.Claim) (jobs.Claim, error) {
	c, err := s.fleetStatus.Claim(ctx, job, hold, again)
	if err != nil || c.Verdict != jobs.Waiting {
		return c, err
	}
	key := "{job:" + string(job.ID) + "}:claim"
	next, _ := s.rdb.HGet(ctx, key, "next").Result()
	s.rdb.HDel(ctx, key, "next")
	c, err = s.fleetStatus.Claim(ctx, job, hold, again)
	s.rdb.HSet(ctx, key, "next", next)
	return c, err
}

type forgetfulSource struct{ fleetSource }

func (forgetfulSource) Nack(context.Context, jobs.Lease, time.Duration) error { return nil }

type blindStore struct{ storage.Store }

func (s blindStore) Put(ctx context.Context, name string, r io.Reader) error {
	ctx = jobs.WithHold(context.WithoutCancel(ctx), func(context.Context) error { return nil })
	return s.Store.Put(ctx, name, r)
}

type lossyPlane struct{ gateway.ControlPlane }

func (lossyPlane) Result(context.Context, string, wire.ResultRequest) (wire.ReportResponse, error) {
	return wire.ReportResponse{OK: true}, nil
}
