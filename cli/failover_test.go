package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// TestF28NoJobIsLostWhenRedisFailsOver kills the primary of a Redis with Sentinels
// under load, each time another: twice, or FAILOVERS times. Every job that was
// submitted ends on record, once, with its result, without a person.
func TestF28NoJobIsLostWhenRedisFailsOver(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts processes")
	testrun.Once(t, kills)
	times := 2
	if n, err := strconv.Atoi(os.Getenv("FAILOVERS")); err == nil {
		times = n
	}
	sentinels := redistest.NewSentinels(t)
	f := newTestFleetOn(t, sentinels.Servers[0])
	o, err := redisdb.ParseURL(sentinels.URL)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redisdb.Connect(o).(*redis.Client)
	t.Cleanup(func() { _ = rdb.Close() })
	f.rdb, f.status = rdb, status.New(rdb)
	env := []string{"REDIS_HOST=", "REDIS_PORT=", "REDIS_URL=" + sentinels.URL, "REPAIR_INTERVAL=2s", "MOCK_PAGES=1-3", "MOCK_PAGE_SECONDS=0.02-0.05"}
	f.start(append(env, "WORKER_SLOTS=2")...)
	f.start(append(env, "WORKER_SLOTS=2")...)

	var ids []jobs.ID
	var load sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer load.Wait()
	defer stop()
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			job := jobs.Job{ID: jobs.ID(fmt.Sprintf("job-%05d", i)), Kind: "mock", Submitted: time.Now()}
			for ctx.Err() == nil {
				if _, err := f.status.Submit(ctx, job); err == nil {
					break
				} else if !errors.Is(err, jobs.ErrUnavailable) {
					t.Error(err)
					return
				}
				<-time.After(100 * time.Millisecond)
			}
			if ctx.Err() != nil {
				return
			}
			if _, err := f.publish.Publish(ctx, job); err != nil {
				return // the test is over, or the emulator says why
			}
			ids = append(ids, job.ID)
			<-time.After(50 * time.Millisecond)
		}
	})
	for range times {
		sentinels.Failover()
	}
	stop()
	load.Wait()
	t.Logf("%d jobs, %d failovers", len(ids), times)
	until(f.t, 3*time.Minute, "every job has ended", func() bool {
		for _, id := range ids {
			if f.state(id) != "completed" {
				return false
			}
		}
		return true
	})
	f.account("completed", ids...)
}
