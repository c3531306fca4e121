package status

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
)

// The queued jobs of each kind have an index of their own, with the scores of the other indexes: so they are
// counted, and the oldest found, at a cost that does not grow with their number. Which kinds there are is in
// kindsKey, a sorted set of their names by when a job was last queued, in ms.

// maxKinds is how many kinds are counted: those that had a job queued last.
const maxKinds = 500

var kindName = jobs.Form(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// indexedKind returns under which name the queued jobs of a kind are counted.
func indexedKind(kind string) string {
	if kind == "" || !kindName().MatchString(kind) {
		return string(UnknownKind)
	}
	return kind
}

// listKinds reads which kinds have an index, or had one within indexAge.
func listKinds(ctx context.Context, pipe redis.Pipeliner) *redis.StringSliceCmd {
	return pipe.ZRevRange(ctx, kindsKey, 0, maxKinds-1)
}

// keepKind adds a kind to those that are known. Each process does it once a minute for the kinds that it
// enters, so a Redis that has lost them knows them again.
func keepKind(ctx context.Context, pipe redis.Pipeliner, kind string) []redis.Cmder {
	return []redis.Cmder{
		pipe.ZAdd(ctx, kindsKey, redis.Z{Score: float64(time.Now().UnixMilli()), Member: kind}),
		pipe.ZRemRangeByRank(ctx, kindsKey, 0, -maxKinds-1),
		pipe.Expire(ctx, kindIndexPrefix+kind, indexAge), // if no job enters it any more, and it is not counted
	}
}
