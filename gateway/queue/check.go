package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// What is wrong with a Redis that answers. The texts hold nothing of the server.
var (
	ErrCluster = errors.New("this Redis is a cluster, whose nodes each have a part of the keys: a gateway needs one server, with replicas if you like")
	ErrEvicts  = errors.New("this Redis may evict keys, and leases and payloads with them: set its maxmemory-policy to noeviction")
	ErrRefuses = errors.New("this Redis refuses the gateway's password or its commands: look at REDIS_USERNAME, REDIS_PASSWORD and the user's ACL")
)

// Check returns nil if Redis answers, runs scripts that write, and lets the queue wait
// for its replicas. Otherwise the error wraps [jobs.ErrUnavailable], and [ErrRefuses]
// when that is why; or it is [ErrCluster] or [ErrEvicts]; any other reply of Redis is
// returned as it is. A server that refuses INFO or ROLE passes.
func (q *Queue) Check(ctx context.Context) error {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	pipe := q.rdb.Pipeline()
	cluster, memory := pipe.Info(ctx, "cluster"), pipe.Info(ctx, "memory")
	role, wait := pipe.Do(ctx, "ROLE"), pipe.Do(ctx, "WAIT", 0, 1)
	_, _ = pipe.Exec(ctx) // what is wrong shows below
	if strings.Contains(cluster.Val(), "cluster_enabled:1") {
		return ErrCluster
	}
	if _, err := q.run(ctx, "check redis", checkScript, []string{checkKey}, time.Minute.Milliseconds()); err != nil {
		return err
	}
	if err := q.learn(role); err != nil {
		return unavailable("ask for replicas", err)
	}
	if role.Err() == nil && redis.HasErrorPrefix(wait.Err(), "NOPERM") {
		return unavailable("wait for a replica", wait.Err())
	}
	if m := memory.Val(); strings.Contains(m, "maxmemory_policy:") && !strings.Contains(m, "maxmemory_policy:noeviction") {
		return ErrEvicts
	}
	return nil
}

// away are the beginnings of what a Redis says that cannot serve now and may
// again: it loads its data, is a replica, is full, runs another script, cannot
// write to its disk or has too many clients. A transaction is aborted for one of
// these reasons, which it does not name. Everything else it says, but for what is
// below, is a mistake of ours, or somebody else's key.
var away = []string{
	"LOADING ", "READONLY ", "OOM ", "BUSY ", "MISCONF ", "MASTERDOWN ", "NOREPLICAS ", "CLUSTERDOWN ", "TRYAGAIN ",
	"ERR max ", "EXECABORT ",
}

// refused are those of one that does not let us in, or not do what we must: also
// while a password or an ACL is being changed. A long command is refused before
// the password is asked for.
var refused = []string{
	"NOAUTH ", "WRONGPASS ", "NOPERM ", "ERR Protocol error: unauthenticated", "ERR The user executing the script can't run",
	"ERR ACL failure in script", "ERR invalid password",
}

// unavailable wraps an error of the Redis client: as [jobs.ErrUnavailable] unless
// Redis itself says that the command is wrong. That there is nothing at a key is none.
func unavailable(what string, err error) error {
	reply, ok := errors.AsType[redis.Error](err)
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return nil
	case !ok || says(reply, away):
		return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
	case says(reply, refused):
		return fmt.Errorf("%s: %w: %w: %w", what, jobs.ErrUnavailable, ErrRefuses, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func says(reply redis.Error, words []string) bool {
	text := reply.Error()
	for _, word := range words {
		if strings.HasPrefix(text, word) {
			return true
		}
		// Before Redis 7 what a script met came inside an ERR.
		if strings.HasPrefix(text, "ERR Error running script") && strings.Contains(text, "-"+word) {
			return true
		}
	}
	return false
}
