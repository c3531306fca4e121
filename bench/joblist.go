package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// jobListSection measures pages of lists of jobs, at a small and at a large
// backlog, beside a loop that reads as many entries of the index and as many
// documents, and looks at none of it.
func jobListSection(ctx context.Context, r *report) error {
	small, large := map[string]float64{}, map[string]float64{}
	for _, at := range []struct {
		jobs int
		took map[string]float64
	}{{10_000, small}, {1_000_000, large}} {
		if err := jobLists(ctx, r, at.jobs, at.took); err != nil {
			return err
		}
	}
	for _, l := range listed {
		r.add(l.name+", 1000000 jobs against 10000", large[l.name]/small[l.name], "ratio", bar{})
	}
	return nil
}

// listed are the lists that are measured: the first page, and one from the middle.
var listed = []struct {
	name   string
	q      status.Query
	middle bool
}{
	{"any job", status.Query{Limit: 50}, false},
	{"any job, in the middle", status.Query{Limit: 50}, true},
	{"queued", status.Query{Limit: 50, State: jobs.Queued}, false},
	{"failed, 10 of all", status.Query{Limit: 50, State: jobs.Failed}, false},
	{"a kind that one in 100 has", status.Query{Limit: 50, Kind: "mock"}, false},
	{"a kind that none has", status.Query{Limit: 50, Kind: "none"}, false},
}

const barePage = "bare ZREVRANGE and MGET of 50"

// jobLists fills a Redis with n jobs, ten of them failed, and measures the lists
// in turns. took gets the medians.
func jobLists(ctx context.Context, r *report, n int, took map[string]float64) error {
	server, err := startRedis(ctx, r.dir)
	if err != nil {
		return err
	}
	defer server.stop()
	rdb := server.rdb
	if err := fillJobs(ctx, rdb, n); err != nil {
		return err
	}
	trips := &tripCount{}
	rdb.AddHook(trips)
	st := status.New(rdb)
	middle, err := rdb.ZRangeWithScores(ctx, "jobs:index", int64(n/2), int64(n/2)).Result()
	if err != nil {
		return err
	}
	times, most := map[string][]float64{}, int64(0)
	for turn := range 40 {
		for _, l := range listed {
			q := l.q
			if l.middle {
				q.Cursor = fmt.Sprintf("%.0f/%s", middle[0].Score, middle[0].Member)
			}
			before, began := trips.n.Load(), time.Now()
			if _, _, err := st.List(ctx, q); err != nil {
				return err
			}
			spent := time.Since(began)
			if turn > 0 { // in the first, the server learns the script
				times[l.name] = append(times[l.name], float64(spent.Microseconds())/1000)
				most = max(most, trips.n.Load()-before)
			}
		}
		began := time.Now()
		if err := bareList(ctx, rdb); err != nil {
			return err
		}
		times[barePage] = append(times[barePage], float64(time.Since(began).Microseconds())/1000)
	}
	bare := median(times[barePage])
	r.add(fmt.Sprintf("%s, %d jobs", barePage, n), bare, "ms", bar{})
	for _, l := range listed {
		took[l.name] = median(times[l.name])
		r.add(fmt.Sprintf("%s, %d jobs, median of 39", l.name, n), took[l.name], "ms", atMost(20))
		r.add("the same against the bare loop", took[l.name]/bare, "ratio", bar{})
	}
	r.add(fmt.Sprintf("round trips of a page, %d jobs, most", n), float64(most), "", atMost(2))
	return nil
}

// bareList reads what a page of any jobs must read at the least.
func bareList(ctx context.Context, rdb *redis.Client) error {
	ids, err := rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "jobs:index", Start: 0, Stop: 49, Rev: true}).Result()
	if err != nil {
		return err
	}
	for i, id := range ids {
		ids[i] = "job:" + id
	}
	return rdb.MGet(ctx, ids...).Err()
}

// fillJobs records n jobs as they stand in Redis, a millisecond apart: ten failed,
// the others queued; one in a hundred of kind mock, the others pdf.
func fillJobs(ctx context.Context, rdb *redis.Client, n int) error {
	const part = 5000
	now := time.Now()
	for from := 0; from < n; from += part {
		_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := from; i < min(n, from+part); i++ {
				id, at, word, kind := fmt.Sprintf("job-%07d", i), now.Add(-time.Duration(n-i)*time.Millisecond), "queued", "pdf"
				if i%(n/10) == n/10-1 {
					word = "failed"
				}
				if i%100 == 0 {
					kind = "mock"
				}
				doc := `{"status":"` + word + `","progress":0,"message":"Waiting for a worker...","result_url":"","error_msg":"","updated_at":"2026-02-12T06:35:00Z"}`
				pipe.Set(ctx, "job:"+id, doc, status.TTL)
				pipe.HSet(ctx, "{job:"+id+"}:detail", "kind", kind, "input", "uploads/"+id+"/x.pdf", "created_at", at.UnixMilli())
				z := redis.Z{Score: float64(at.UnixMilli() * 1000), Member: id}
				pipe.ZAdd(ctx, "jobs:index", z)
				pipe.ZAdd(ctx, "jobs:index:"+word, z)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("fill redis: %w", err)
		}
	}
	return nil
}

// tripCount counts round trips.
type tripCount struct{ n atomic.Int64 }

func (c *tripCount) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *tripCount) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *tripCount) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(1); return next(ctx, cmds) }
}
