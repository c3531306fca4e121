package status_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/worker/workertest"
)

// Claims (F11), crashes (F12), cancels (F19), retries (K-10), logs (F26, K-06) and other kinds (K-13) as
// a worker meets them; what others are shown of them stands beside it.
func TestF11F12F19F26K06K10K13StoreIsAStatus(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, _ *status.Store, rdb *redis.Client) {
		workertest.Status(t, func(t *testing.T) workertest.Store {
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			return logged{newStore(rdb, "w1")}
		})
	})
}

// logged is a Store whose logs the suite can read.
type logged struct{ *status.Store }

func (l logged) Log(ctx context.Context, id jobs.ID) (texts []string, err error) {
	lines, err := l.Lines(ctx, id, status.LogQuery{Tail: 1 << 30})
	for _, line := range lines {
		texts = append(texts, line.Text)
	}
	return texts, err
}
