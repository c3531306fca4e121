package redisdb

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Call is a script with what it is called with.
type Call struct {
	Script Script
	Keys   []string
	Args   []any
}

// Result is what came of a call.
type Result struct {
	Reply Reply
	Err   error
}

// RunAll calls scripts in one round trip to each server that has their keys. Scripts that a server did not know are
// called again in a second round trip. It returns the results in order: an error of one call does not touch the
// others. beside adds further commands to the first round trip, and keeps them if it needs their replies.
func RunAll(ctx context.Context, c redis.Cmdable, calls []Call, beside func(redis.Pipeliner)) []Result {
	cmds := make([]*redis.Cmd, len(calls))
	pipe := c.Pipeline()
	for i, call := range calls {
		cmds[i] = call.Script.load().EvalSha(ctx, pipe, call.Keys, call.Args...)
	}
	beside(pipe)
	_, _ = pipe.Exec(ctx) // each command has its own error
	pipe = c.Pipeline()
	for i, call := range calls {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
			cmds[i] = call.Script.load().Eval(ctx, pipe, call.Keys, call.Args...)
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx)
	}
	results := make([]Result, len(calls))
	for i, cmd := range cmds {
		results[i].Reply, results[i].Err = reply(cmd)
	}
	return results
}
