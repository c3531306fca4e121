package status_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/status/redistest"
	"github.com/batchfleet/batchfleet/worker/workertest"
)

func TestStoreIsAStatus(t *testing.T) {
	t.Run("miniredis", func(t *testing.T) {
		workertest.Status(t, func(t *testing.T) workertest.Store {
			m := miniredis.RunT(t)
			m.ClockTTL(true)
			rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), DisableIdentity: true})
			t.Cleanup(func() { _ = rdb.Close() })
			return newStore(rdb, "w1")
		})
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.New(t)
		workertest.Status(t, func(t *testing.T) workertest.Store {
			rdb := server.Client()
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			return newStore(rdb, "w1")
		})
	})
}
