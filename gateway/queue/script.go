package queue

import (
	"context"
	"embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
)

//go:embed lua/*.lua
var lua embed.FS

// Each script says in its header what it takes and returns.
var (
	submitScript     = kept(newScript("list", "submit"))
	leaseScript      = newScript("who", "list", "each", "retry", "promote", "lease")
	heartbeatScript  = newScript("who", "list", "each", "heartbeat")
	finishScript     = kept(newScript("who", "list", "each", "lines", "finish"))
	failScript       = newScript("who", "caller", "list", "retry", "fail")
	artifactScript   = newScript("who", "caller", "artifact")
	logScript        = newScript("who", "list", "each", "lines", "log")
	authScript       = newScript("who", "caller", "auth")
	reapScript       = newScript("list", "retry", "reap")
	promoteScript    = newScript("promote", "promoteonly")
	cancelScript     = newScript("list", "retry", "cancel")
	registerScript   = kept(newScript("register"))
	revokeScript     = newScript("revoke")
	forgetScript     = newScript("forget")
	requeueScript    = newScript("list", "requeue")
	dropScript       = newScript("drop")
	acceptScript     = newScript("list", "accept")
	pageScript       = script{Script: redisdb.PageScript}
	unlistScript     = newScript("list", "unlist")
	unlistDeadScript = newScript("unlistdead")
	countScript      = newScript("list", "count")
	hoursScript      = newScript("hours")
	checkScript      = newScript("check")
	fsckScript       = newScript("list", "retry", "fsck")
)

type script struct {
	redisdb.Script
	kept bool // its answer waits for a replica: see Queue.keep
}

func newScript(files ...string) script {
	return script{Script: redisdb.NewScript(lua, append([]string{"key"}, files...)...)}
}

func kept(sc script) script {
	sc.kept = true
	return sc
}

// bounded returns ctx with a deadline.
func (q *Queue) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, q.CallTimeout)
}

// run runs a script in one round trip.
func (q *Queue) run(ctx context.Context, what string, sc script, keys []string, args ...any) (redisdb.Reply, error) {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	c := redis.Scripter(q.rdb)
	if sc.kept {
		c = keeper{q.rdb, q}
	}
	a, err := sc.Run(ctx, c, keys, args...)
	return a, unavailable(what, err)
}

// runAs runs a script that begins with caller.lua.
func (q *Queue) runAs(ctx context.Context, c Caller, what string, sc script, keys []string, args ...any) (redisdb.Reply, error) {
	if c.TokenHash == "" && c.Worker == "" {
		return nil, ErrTokenUnknown // a caller that was not authorized
	}
	keys = append([]string{tokenKey(c.TokenHash), revokedKey}, keys...)
	args = append([]any{c.TokenHash, c.Worker, unix(q.Now()), c.Claimed}, args...)
	a, err := q.run(ctx, what, sc, keys, args...)
	if err != nil {
		return nil, err
	}
	return a, answered(what, a)
}

// answered returns the error that a script's answer to a call of a worker means, if it is one
// that any such script may give.
func answered(what string, a redisdb.Reply) error {
	switch a.Text(0) {
	case "refused":
		return refusal(a.Text(1))
	case "unknown":
		return ErrNoJob
	case "lost":
		return fmt.Errorf("%s: %w", what, jobs.ErrLeaseLost)
	}
	return nil
}

func refusal(word string) error {
	switch word {
	case "revoked":
		return ErrTokenRevoked
	case "expired":
		return ErrTokenExpired
	case "mismatch":
		return ErrOtherWorker
	default:
		return ErrTokenUnknown
	}
}

func unexpected(what string, a redisdb.Reply) error {
	return fmt.Errorf("%s: %w", what, a.Unexpected())
}
