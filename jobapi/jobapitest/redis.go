// Package jobapitest holds the tests that every [jobapi.Jobs] must pass.
package jobapitest

import (
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
		_, err := all.List(t.Context(), jobapi.Query{Limit: 1})
		_, err2 := all.Get(t.Context(), []string{"a"})
		_, err3 := all.Log(t.Context(), "a", jobapi.LogQuery{Tail: 1})
		_, err4 := all.Cancel(t.Context(), "a")
		for i, err := range []error{err, err2, err3, err4} {
			if !errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("call %d, when Redis answers %s: %v", i, answer, err)
			}
		}
	}
}
