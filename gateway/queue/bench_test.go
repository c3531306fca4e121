package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
)

// BenchmarkLeaseFinish shows whether the length of the queue matters.
func BenchmarkLeaseFinish(b *testing.B) {
	r := newRig(b)
	r.is("OK", "CONFIG", "SET", "appendonly", "no") // its file is rewritten now and then, which is not what is measured
	total := 0
	fill := func(b *testing.B, n int) {
		b.Helper()
		for total < n {
			pipe := r.rdb.Pipeline()
			for range 5000 {
				id := fmt.Sprintf("01KAJ0000000%014d", total)
				pipe.Set(r.ctx(), "zpe:payload:"+id, "{}", time.Hour)
				pipe.HSet(r.ctx(), "zpe:status:"+id, "status", "queued", "detail", "", "created_at", "2026-11-21T00:00:00.123456789Z")
				pipe.PExpire(r.ctx(), "zpe:status:"+id, time.Hour)
				pipe.LPush(r.ctx(), "zpe:queue", id)
				pipe.ZAdd(r.ctx(), "zpe:jobs:queued", redis.Z{Score: 1_795_219_200_123, Member: id})
				total++
			}
			if _, err := pipe.Exec(r.ctx()); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("queued=%d", n), func(b *testing.B) {
			fill(b, n)
			r.do("CONFIG", "RESETSTAT")
			for b.Loop() {
				g, err := r.Lease(r.ctx(), w1, queue.LeaseRequest{Renews: true})
				if err != nil || g.Job == "" {
					b.Fatal(g, err)
				}
				if _, err := r.finish(w1, g, `{}`); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(inScripts(r)/float64(b.N), "µs-in-scripts/job")
			if n < 1_000_000 {
				return
			}
			began := time.Now()
			if rep, err := r.Fsck(r.ctx(), false); err != nil || !clean(rep) {
				b.Fatal(rep.Counts, err)
			}
			b.ReportMetric(time.Since(began).Seconds(), "s/fsck")
		})
	}
}

// inScripts returns how many microseconds the scripts have taken in Redis.
func inScripts(r *rig) (us float64) {
	r.Helper()
	for line := range strings.SplitSeq(r.do("INFO", "commandstats"), "\r\n") {
		if stat, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			var calls int
			if _, err := fmt.Sscanf(stat, "calls=%d,usec=%f", &calls, &us); err != nil {
				r.Fatal(stat, err)
			}
		}
	}
	return us
}

// BenchmarkList shows whether the number of jobs matters: a first page, and one
// from the middle.
func BenchmarkList(b *testing.B) {
	r := newRig(b)
	r.is("OK", "CONFIG", "SET", "appendonly", "no")
	const n = 1_000_000
	for total := 0; total < n; {
		pipe := r.rdb.Pipeline()
		for range 5000 {
			id, state := fmt.Sprintf("01KAJ0000000%014d", total), queue.States[total%3] // queued, started, finished
			pipe.HSet(r.ctx(), "zpe:status:"+id, "status", state, "detail", "", "created_at", "2026-11-21T00:00:00.123456789Z")
			pipe.ZAdd(r.ctx(), "zpe:jobs:"+state, redis.Z{Score: float64(1_795_000_000_000 + total/3), Member: id})
			total++
		}
		if _, err := pipe.Exec(r.ctx()); err != nil {
			b.Fatal(err)
		}
	}
	for _, state := range []string{"", queue.Queued, queue.Failed} {
		for _, cursor := range []string{"", fmt.Sprintf("%d.01KAJ", 1_795_000_000_000+n/6)} {
			b.Run(fmt.Sprintf("state=%s/cursor=%s", state, cursor), func(b *testing.B) {
				for b.Loop() {
					if _, _, err := r.List(r.ctx(), queue.ListQuery{State: state, Limit: 50, Cursor: cursor}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
