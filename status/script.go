package status

import (
	"context" //nolint:gosec // the name Redis gives a script, not a secret
	"embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/redisdb"
)

//go:embed lua/*.lua
var lua embed.FS

// Each script says in its header what it takes and returns.
var (
	submitScript  = redisdb.NewScript(lua, "job", "submit")
	claimScript   = redisdb.NewScript(lua, "job", "log", "claim")
	reportScript  = redisdb.NewScript(lua, "job", "log", "report")
	finishScript  = redisdb.NewScript(lua, "job", "log", "finish")
	releaseScript = redisdb.NewScript(lua, "job", "log", "release")
	cancelScript  = redisdb.NewScript(lua, "job", "cancel")
	lapseScript   = redisdb.NewScript(lua, "job", "lapse")
	watchScript   = redisdb.NewScript(lua, "job", "watch")
	pulseScript   = redisdb.NewScript(lua, "job", "pulse")
	requeueScript = redisdb.NewScript(lua, "job", "log", "requeue")
	pageScript    = redisdb.NewScript(lua, "page")
	linesScript   = redisdb.NewScript(lua, "job", "log", "lines")
	recordScript  = redisdb.NewScript(lua, "queue")
	dueScript     = redisdb.NewScript(lua, "job", "due")
	lookedScript  = redisdb.NewScript(lua, "job", "looked")
)

// run runs a script, and in the same round trip whatever beside adds to the
// pipeline; beside may be nil. A server that does not have the script (it was
// restarted or flushed) is sent the text.
func (s *Store) run(ctx context.Context, sc redisdb.Script, keys []string, args []any, beside func(redis.Pipeliner)) (any, error) {
	var cmd *redis.Cmd
	if beside == nil {
		cmd = sc.EvalSha(ctx, s.rdb, keys, args...)
	} else {
		// The error of a pipeline is that of its first failed command; the
		// script's own counts, the others are looked at by nobody.
		_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			cmd = sc.EvalSha(ctx, pipe, keys, args...)
			beside(pipe)
			return nil
		})
	}
	if redisdb.NoScript(cmd.Err()) {
		cmd = sc.Eval(ctx, s.rdb, keys, args...)
	}
	v, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // a script may return nothing
	}
	return v, err
}

// ttlSeconds is TTL for EXPIRE.
const ttlSeconds = int64(TTL / time.Second)
