package status

import (
	"context"
	"embed"
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
	retryScript   = redisdb.NewScript(lua, "job", "log", "retry")
	leaveScript   = redisdb.NewScript(lua, "job", "leave")
	cancelScript  = redisdb.NewScript(lua, "job", "log", "cancel")
	lapseScript   = redisdb.NewScript(lua, "job", "lapse")
	watchScript   = redisdb.NewScript(lua, "job", "watch")
	pulseScript   = redisdb.NewScript(lua, "job", "pulse")
	requeueScript = redisdb.NewScript(lua, "job", "log", "requeue")
	linesScript   = redisdb.NewScript(lua, "job", "log", "lines")
	recordScript  = redisdb.NewScript(lua, "queue")
	dueScript     = redisdb.NewScript(lua, "job", "due")
	promoteScript = redisdb.NewScript(lua, "job", "promote")
	resignScript  = redisdb.NewScript(lua, "resign")
	lookedScript  = redisdb.NewScript(lua, "job", "looked")
	drainScript   = redisdb.NewScript(lua, "job", "drainworker")
	pauseScript   = redisdb.NewScript(lua, "job", "pause")
	flowScript    = redisdb.NewScript(lua, "job", "flow")
)

// run runs a script in one round trip.
func (s *Store) run(ctx context.Context, what string, sc redisdb.Script, keys []string, args ...any) (redisdb.Reply, error) {
	got, err := sc.Run(ctx, s.rdb, keys, args...)
	return got, unavailable(what, err)
}

// beside is a client that adds more to the round trip of a script. What comes of that is
// not looked at.
type beside struct {
	redis.UniversalClient
	add func(redis.Pipeliner)
}

func (b beside) EvalSha(ctx context.Context, sha string, keys []string, args ...any) (cmd *redis.Cmd) {
	pipe := b.Pipeline()
	cmd = pipe.EvalSha(ctx, sha, keys, args...)
	b.add(pipe)
	_, _ = pipe.Exec(ctx)
	return cmd
}

// ttlSeconds is TTL for EXPIRE.
const ttlSeconds = int64(TTL / time.Second)
