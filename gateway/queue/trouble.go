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

// callTimeout bounds a call whose context has no deadline of its own.
const callTimeout = 5 * time.Second

// bounded returns ctx with a deadline.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// away are the beginnings of what a Redis says that cannot serve now and may
// again: it loads its data, is a replica, is full, runs another script, cannot
// write to its disk, has too many clients or refuses a password that is being
// changed. A transaction is aborted for one of these reasons, which it does not name.
// Everything else it says is a mistake of ours, or somebody else's key.
var away = []string{
	"LOADING ", "READONLY ", "OOM ", "BUSY ", "MISCONF ", "MASTERDOWN ", "NOREPLICAS ", "CLUSTERDOWN ", "TRYAGAIN ",
	"NOAUTH ", "WRONGPASS ", "ERR max ", "EXECABORT ",
}

// unavailable wraps an error of the Redis client: as [jobs.ErrUnavailable] unless
// Redis itself says that the command is wrong.
func unavailable(what string, err error) error {
	if reply, ok := errors.AsType[redis.Error](err); ok && !isAway(reply.Error()) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
}

func isAway(reply string) bool {
	for _, word := range away {
		if strings.HasPrefix(reply, word) {
			return true
		}
		// Before Redis 7 what a script met came inside an ERR.
		if strings.HasPrefix(reply, "ERR Error running script") && strings.Contains(reply, "-"+word) {
			return true
		}
	}
	return false
}
