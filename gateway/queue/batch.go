package queue

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/gateway/wire"
	"github.com/batchfleet/batchfleet/redisdb"
)

// MaxBatch is how many calls of workers one script does at most, and how many jobs for one
// call: it bounds for how long Redis does nothing else. A request may bring as many.
const MaxBatch = wire.MaxBatch

// workerCall is one call of a worker, and args what the script is to know of it.
type workerCall struct {
	caller Caller
	args   []any
}

// scriptReply is the answer of a script to one call.
type scriptReply struct {
	redisdb.Reply
	err error
}

// line sends the calls of one sort, each for one job, to Redis. One that finds none under way goes at once,
// in the goroutine of its caller: to hand it to another one would cost a tenth of what it takes. What comes
// meanwhile goes in one script beside it, and what comes during that in the next. So there are two
// scripts on their way at most: Redis works on one while the answer of the other travels.
type line struct {
	what   string
	script script
	shared func() []any // the arguments that all calls share

	alone atomic.Bool // a call is under way by itself
	group *batch.Group[workerCall, scriptReply]
}

func (q *Queue) newLine(what string, sc script, shared func() []any) *line {
	l := &line{what: what, script: sc, shared: shared}
	l.group = &batch.Group[workerCall, scriptReply]{Max: MaxBatch, Send: func(ctx context.Context, calls []workerCall) []batch.Answer[scriptReply] {
		answers := make([]batch.Answer[scriptReply], len(calls))
		for i, a := range q.runEach(ctx, what, sc, shared(), calls) {
			answers[i].Value = a
		}
		return answers
	}}
	return l
}

// do makes a call. If ctx ends meanwhile it may have been made all the same.
func (q *Queue) do(ctx context.Context, l *line, c workerCall) scriptReply {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	if l.alone.CompareAndSwap(false, true) {
		defer l.alone.Store(false)
		return q.runEach(ctx, l.what, l.script, l.shared(), []workerCall{c})[0]
	}
	a, err := l.group.Do(ctx, c)
	if err != nil {
		return scriptReply{err: unavailable(l.what, fmt.Errorf("wait for Redis: %w", err))}
	}
	return a
}

// runEach runs a script that begins with each.lua once, for several calls of workers, and returns as
// many answers. Each has its own error.
func (q *Queue) runEach(ctx context.Context, what string, sc script, shared []any, calls []workerCall) []scriptReply {
	answers := make([]scriptReply, len(calls))
	args := append([]any{unix(q.Now())}, shared...)
	var asked []int // the calls that the script gets
	for i, c := range calls {
		if c.caller.TokenHash == "" && c.caller.Worker == "" {
			answers[i].err = ErrTokenUnknown // a caller that was not authorized
			continue
		}
		asked = append(asked, i)
		args = append(append(args, c.caller.TokenHash, c.caller.Worker, c.caller.Claimed), c.args...)
	}
	if len(asked) == 0 {
		return answers
	}
	// The scripts make their keys themselves. These two are for Redis, which refuses a user that may not use them.
	all, err := q.run(ctx, what, sc, []string{revokedKey, indexKey}, args...)
	if err == nil && len(all) != len(asked) {
		err = unexpected(what, all)
	}
	for n, i := range asked {
		if err != nil {
			answers[i].err = err
			continue
		}
		answers[i] = replyOf(what, all[n])
	}
	return answers
}

func replyOf(what string, v any) scriptReply {
	switch v := v.(type) {
	case []any:
		return scriptReply{v, answered(what, v)}
	case redis.Error:
		return scriptReply{err: unavailable(what, v)}
	}
	return scriptReply{err: unexpected(what, redisdb.Reply{v})}
}
