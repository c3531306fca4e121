// Package jobapitest holds the tests that every [jobapi.Jobs] must pass.
package jobapitest

import (
	"context"
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// RedisRefuses checks that jobs kept in Redis are unavailable, rather than absent or
// broken, while Redis answers with an error.
func RedisRefuses(t *testing.T, open func(*redis.Client) jobapi.Jobs) {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	all := open(rdb)
	for _, answer := range []string{"ERR upstream refused", "LOADING Redis is loading", "READONLY no", "MASTERDOWN no", "OOM no", "NOAUTH no", "NOPERM no"} {
		server.SetError(answer)
		Unavailable(t.Context(), t, "when Redis answers "+answer, all)
	}
}

// Unavailable checks that no call of all is answered, and that each says why.
func Unavailable(ctx context.Context, t *testing.T, when string, all jobapi.Jobs) {
	t.Helper()
	_, err := all.List(ctx, jobapi.Query{Limit: 1})
	_, err2 := all.Get(ctx, []string{"a"})
	_, err3 := all.Log(ctx, "a", jobapi.LogQuery{Tail: 1})
	_, err4 := all.Cancel(ctx, "a")
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("call %d %s: %v, want ErrUnavailable", i, when, err)
		}
	}
}
