package status_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker/workertest"
)

// Claims (F11), crashes (F12), cancels (F19) and retries (K-10) as a worker meets them; what others are
// shown of them stands beside it.
func TestF11F12F19K10StoreIsAStatus(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, _ *status.Store, rdb *redis.Client) {
		workertest.Status(t, func(t *testing.T) workertest.Store {
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			return newStore(rdb, "w1")
		})
	})
}
