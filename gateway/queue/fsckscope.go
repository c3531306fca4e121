package queue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// scopes: counts and feeds are what they are called. Jobs move without them, and cannot be counted or followed.
func (f *fsck) scopes(ctx context.Context) error {
	want := map[string]string{
		countsKey(false): "hash", countsKey(true): "hash", changesKey(false): "stream", changesKey(true): "stream",
	}
	types := map[string]*redis.StatusCmd{}
	err := f.pipe(ctx, func(ctx context.Context, p redis.Pipeliner) {
		for key := range want {
			types[key] = p.Type(ctx, key)
		}
	})
	for key, is := range types {
		if err != nil || is.Val() == want[key] || is.Val() == "none" {
			continue
		}
		done := ""
		if f.repair {
			err = f.call(ctx, func(ctx context.Context) error { return f.q.rdb.Del(ctx, key).Err() })
			done = "deleted; it begins again"
		}
		f.report.Add(newFinding("wrong type", "", key+" is a "+is.Val()+" and not a "+want[key], done))
	}
	return err
}
