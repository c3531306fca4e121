package queue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// everywhere leaves one job in each place.
func (r *rig) everywhere() {
	r.Helper()
	r.submit("leased", "delayed", "finished", "dead", "canceled", "queued", "queued2")
	r.lease(w1, "leased")
	r.fail(w1, r.lease(w1, "delayed"), queue.Retry)
	must(r.finish(w1, r.lease(w1, "finished"), `{}`))(r)
	r.fail(w1, r.lease(w1, "dead"), queue.Final)
	g := r.lease(w1, "canceled")
	must(r.Cancel(r.ctx(), "canceled"))(r)
	r.fail(w1, g, queue.Retry)
}

func TestZ72FsckFindsAndRepairsEveryDamage(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	type command = []any
	tests := []struct {
		name   string
		damage []command
		kinds  []string // each of the one job
		job    jobs.ID
		then   string // the job's status after the repair
	}{
		{
			"a lease is gone",
			[]command{{"DEL", "zpe:lease:leased"}, {"ZREM", "zpe:lease:index", "leased"}},
			[]string{"started without lease"},
			"leased", "queued",
		},
		{
			"a lease hash is gone",
			[]command{{"DEL", "zpe:lease:leased"}},
			[]string{"index without lease", "started without lease"},
			"leased", "queued",
		},
		{"a lease is gone, after the last run", []command{
			{"DEL", "zpe:lease:leased"}, {"ZREM", "zpe:lease:index", "leased"}, {"SET", "zpe:retry_count:leased", "3"},
		}, []string{"started without lease"}, "leased", "failed"},
		{"a lease is not in the index", []command{{"ZREM", "zpe:lease:index", "leased"}}, []string{"lease without index"}, "leased", "started"},
		{"the index differs", []command{{"ZADD", "zpe:lease:index", "9e9", "leased"}}, []string{"index differs from lease"}, "leased", "started"},
		{"the index knows a job that waits", []command{{"ZADD", "zpe:lease:index", "1", "queued"}}, []string{"index without lease"}, "queued", "queued"},
		{"the index knows nobody's job", []command{{"ZADD", "zpe:lease:index", "1", "ghost"}}, []string{"index without lease"}, "ghost", ""},
		{"a lease has no end", []command{{"HDEL", "zpe:lease:leased", "expires_at"}}, []string{"lease without holder or end"}, "leased", "started"},
		{"a lease has no holder", []command{{"HDEL", "zpe:lease:leased", "worker_id", "lease_id"}}, []string{"lease without holder or end"}, "leased", "started"},
		{
			"the status of a leased job says queued",
			[]command{{"HSET", "zpe:status:leased", "status", "queued"}},
			[]string{"lease of a job that is not started"},
			"leased", "started",
		},
		{"the status of a leased job is gone", []command{{"DEL", "zpe:status:leased"}}, []string{"status missing"}, "leased", "started"},
		{"a finished job is leased", []command{
			{"HSET", "zpe:lease:finished", "worker_id", "w", "lease_id", "l", "expires_at", "9e9"}, {"ZADD", "zpe:lease:index", "9e9", "finished"},
		}, []string{"lease of an ended job"}, "finished", "finished"},
		{"a finished job is in the index", []command{{"ZADD", "zpe:lease:index", "9e9", "finished"}}, []string{"index without lease"}, "finished", "finished"},
		{"a queued job has no entry", []command{{"LREM", "zpe:queue", "0", "queued"}}, []string{"queued without entry"}, "queued", "queued"},
		{"a delayed job has no entry", []command{{"ZREM", "zpe:delay", "delayed"}}, []string{"queued without entry"}, "delayed", "queued"},
		{"a job is queued twice", []command{{"LPUSH", "zpe:queue", "queued"}}, []string{"in the queue twice"}, "queued", "queued"},
		{"a job is queued three times", []command{{"LPUSH", "zpe:queue", "queued", "queued"}}, []string{"in the queue twice"}, "queued", "queued"},
		{"a job is queued and delayed", []command{{"LPUSH", "zpe:queue", "delayed"}}, []string{"in two places"}, "delayed", "queued"},
		{"a job is leased and delayed", []command{{"ZADD", "zpe:delay", "1", "leased"}}, []string{"in two places"}, "leased", "started"},
		{"a leased job has an entry", []command{{"LPUSH", "zpe:queue", "leased"}}, []string{"stale entry"}, "leased", "started"},
		{"a finished job has an entry", []command{{"LPUSH", "zpe:queue", "finished"}}, []string{"stale entry"}, "finished", "finished"},
		{"a canceled job has an entry", []command{{"LPUSH", "zpe:queue", "canceled"}}, []string{"stale entry"}, "canceled", "failed"},
		{"a finished job is delayed", []command{{"ZADD", "zpe:delay", "1", "finished"}}, []string{"stale entry"}, "finished", "finished"},
		{"a dead letter waits", []command{{"LPUSH", "zpe:dlq", "queued"}}, []string{"dead letter of a job that has not failed"}, "queued", "queued"},
		{"a dead letter runs", []command{{"LPUSH", "zpe:dlq", "leased"}}, []string{"dead letter of a job that has not failed"}, "leased", "started"},
		{"a dead letter has finished", []command{{"LPUSH", "zpe:dlq", "finished"}}, []string{"dead letter of a job that has not failed"}, "finished", "finished"},
		{"a dead letter is there twice", []command{{"LPUSH", "zpe:dlq", "dead"}}, []string{"dead letter twice"}, "dead", "failed"},
		{"a dead letter has expired", []command{{"DEL", "zpe:status:dead", "zpe:payload:dead"}}, []string{"dead letter without a job", "listed without a job"}, "dead", ""},
		{"a dead letter lost its status", []command{{"DEL", "zpe:status:dead"}}, []string{"status missing"}, "dead", "failed"},
		{"the payload of a queued job is gone", []command{{"DEL", "zpe:payload:queued"}}, []string{"payload missing"}, "queued", "failed"},
		{"the payload of a delayed job is gone", []command{{"DEL", "zpe:payload:delayed"}}, []string{"payload missing"}, "delayed", "failed"},
		{"a queued job has expired", []command{{"DEL", "zpe:payload:queued", "zpe:status:queued"}}, []string{"listed without a job", "payload missing"}, "queued", "failed"},
		{"the status of a queued job is gone", []command{{"DEL", "zpe:status:queued"}}, []string{"status missing"}, "queued", "queued"},
		{"the status of a delayed job is gone", []command{{"DEL", "zpe:status:delayed"}}, []string{"status missing"}, "delayed", "queued"},
		{"a job is in no list", []command{{"ZREM", "zpe:jobs:queued", "queued"}}, []string{"not listed"}, "queued", "queued"},
		{"a job is in a wrong list only", []command{{"RENAME", "zpe:jobs:finished", "zpe:jobs:failed"}, {"DEL", "zpe:status:dead", "zpe:payload:dead", "zpe:dlq"}}, []string{"not listed"}, "finished", "finished"},
		{"a job is in a wrong list, too", []command{{"ZADD", "zpe:jobs:started", "5", "queued"}}, []string{"listed twice"}, "queued", "queued"},
		{"a canceled job is listed as failed", []command{{"ZADD", "zpe:jobs:failed", "5", "canceled"}}, []string{"listed twice"}, "canceled", "failed"},
		{"a list has a job that has expired", []command{{"ZADD", "zpe:jobs:finished", "5", "ghost"}}, []string{"listed without a job"}, "ghost", ""},
		{"a result is gone", []command{{"DEL", "zpe:result:finished"}}, []string{"finished without result"}, "finished", "failed"},
	}
	onBoth(t, func(r *rig) {
		for _, tt := range tests {
			must(r.rdb.FlushDB(r.ctx()).Result())(r)
			r.everywhere()
			r.sound()
			for _, c := range tt.damage {
				r.do(c...)
			}
			before := r.dump()
			check := func(when string, repair bool) {
				r.Helper()
				rep := must(r.Fsck(r.ctx(), repair))(r)
				var kinds []string
				for _, f := range rep.Findings {
					kinds = append(kinds, f.Kind)
					if f.Job != tt.job || (f.Done != "") != repair || f.Detail == "" {
						r.Errorf("%s: %+v", tt.name, f)
					}
				}
				slices.Sort(kinds)
				if !slices.Equal(kinds, tt.kinds) {
					r.Errorf("%s: found %q %s, want %q", tt.name, kinds, when, tt.kinds)
				}
				left, harmless := 0, true
				for _, kind := range tt.kinds {
					if !queue.Harmless(kind) {
						left++
						harmless = false
					}
				}
				if repair {
					left = 0
				}
				if rep.Left != left {
					r.Errorf("%s: %d left %s, want %d", tt.name, rep.Left, when, left)
				}
				if clean(rep) != harmless {
					r.Errorf("%s: clean=%v", tt.name, clean(rep))
				}
			}
			check("at first", false)
			if r.dump() != before {
				r.Errorf("%s: looking changed something", tt.name)
			}
			check("at the repair", true)
			r.sound()
			if tt.then != "" {
				r.status(tt.job, tt.then)
			}
			if r.Failed() {
				r.Fatalf("%s: before\n%s\nafter\n%s", tt.name, before, r.dump())
			}
			r.runAll()
			r.sound()
		}
	})
}

// runAll lets time pass and runs whatever waits, until nothing does.
func (r *rig) runAll() {
	r.Helper()
	for range 3 {
		r.clock.pass(2 * time.Hour)
		must(r.Reap(r.ctx()))(r)
		r.clock.pass(time.Hour)
		for {
			g := must(r.Lease(r.ctx(), w2, queue.LeaseRequest{Renews: true}))(r)
			if g.Job == "" {
				break
			}
			must(r.finish(w2, g, `{}`))(r)
		}
	}
	if s := must(r.Stats(r.ctx()))(r); s.Queued+s.Leased+s.Delayed > 0 {
		r.Errorf("it does not all end: %+v", s)
	}
}

func TestZ72FsckCountsARepairedLeaseAsARun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.everywhere()
	r.do("DEL", "zpe:lease:leased")
	must(r.Fsck(r.ctx(), true))(r)
	r.is("1", "GET", "zpe:retry_count:leased")
	if got, want := r.rdb.ZScore(r.ctx(), "zpe:delay", "leased").Val(), float64(r.clock.Now().Add(20*time.Second).UnixMilli())/1000; got != want {
		r.Errorf("it runs again at %v, want %v", got, want)
	}
}

func TestZ72FsckRunsNoJobAgainThatWasCanceledOrTimedOut(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		for _, tt := range []struct{ name, mark, detail, code, retries, letters, done string }{
			{"canceled", "cancel_requested", "canceled", "CANCELED", "<nil>", "0", "canceled, as somebody had asked"},
			{
				"timed out", "timed_out", "job timeout; its lease was lost by the gateway", "JOB_TIMEOUT", "1", "1",
				"counted as a failed run, it is dead",
			},
		} {
			must(r.rdb.FlushDB(r.ctx()).Result())(r)
			r.submit("a")
			r.fail(w1, r.lease(w1, "a"), queue.ReturnUncounted) // with a message of its own
			r.lease(w1, "a")
			r.do("HSET", "zpe:status:a", tt.mark, "1")
			r.do("DEL", "zpe:lease:a", "zpe:lease:index")
			rep := must(r.Fsck(r.ctx(), true))(r)
			if len(rep.Findings) != 1 || rep.Findings[0].Done != tt.done {
				r.Errorf("%s: %+v", tt.name, rep.Findings)
			}
			if j := r.status("a", "failed"); j.Detail != tt.detail || j.ErrorCode != tt.code || j.ErrorMessage != "" {
				r.Errorf("%s: %+v", tt.name, j)
			}
			if got := fmt.Sprint(r.rdb.Do(r.ctx(), "GET", "zpe:retry_count:a").Val()); got != tt.retries {
				r.Errorf("%s: %s failed runs are counted, want %s", tt.name, got, tt.retries)
			}
			r.is(tt.letters, "LLEN", "zpe:dlq")
			r.is("0", "EXISTS", "zpe:delay", "zpe:queue")
			r.sound()
		}
	})
}

func TestZ72FsckKeepsWhatItRepairs(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.everywhere()
		r.do("HSET", "zpe:lease:finished", "worker_id", "w1", "lease_id", "l", "expires_at", "9e9")
		r.do("LREM", "zpe:queue", 0, "queued")
		for _, key := range []string{"zpe:status:queued", "zpe:payload:queued"} {
			r.rdb.PExpire(r.ctx(), key, time.Hour)
		}
		must(r.Fsck(r.ctx(), true))(r)
		r.is("w1", "HGET", "zpe:reaped:finished", "l")
		r.keepsFor("zpe:reaped:finished", 24*time.Hour)
		for _, key := range []string{"zpe:status:queued", "zpe:payload:queued"} {
			r.keepsFor(key, week)
		}
		r.sound()
	})
}

func TestZ72FsckReportsForeignKeysAndLeavesThem(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.everywhere()
		r.do("SET", "zpe:status:foreign", "x")
		r.do("SET", "zpe:status:queued", "x")
		r.do("HSET", "zpe:status:odd", "status", "paused")
		for _, repair := range []bool{false, true} {
			rep := must(r.Fsck(r.ctx(), repair))(r)
			if !maps.Equal(rep.Counts, map[string]int{"wrong type": 2, "status unknown": 1}) || rep.Left != 3 {
				r.Errorf("%+v", rep)
			}
		}
		r.is("x", "GET", "zpe:status:foreign")
		r.lease(w2, "queued2") // the damaged one goes to where people look
		r.is("queued", "LINDEX", "zpe:dlq", 0)
	})
}

func TestZ72FsckRepairsMuchDamageOverManyPages(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	r := newRig(t)
	const n = 3500
	pipe := r.rdb.Pipeline()
	for i := range n {
		id := fmt.Sprintf("j%05d", i)
		pipe.Set(r.ctx(), "zpe:payload:"+id, "{}", time.Hour)
		pipe.HSet(r.ctx(), "zpe:status:"+id, "status", "queued")
		pipe.Expire(r.ctx(), "zpe:status:"+id, time.Hour)
		pipe.LPush(r.ctx(), "zpe:queue", id)
		if i%7 == 0 { // twice, or a dead letter by mistake
			pipe.LPush(r.ctx(), "zpe:queue", id)
		}
		if i%9 == 0 {
			pipe.LPush(r.ctx(), "zpe:dlq", id)
		}
	}
	must(pipe.Exec(r.ctx()))(r)
	for i := range n {
		if i%5 == 0 { // lost altogether
			r.do("LREM", "zpe:queue", 0, fmt.Sprintf("j%05d", i))
		}
	}
	rep := must(r.Fsck(r.ctx(), true))(r)
	want := map[string]int{"in the queue twice": 400, "dead letter of a job that has not failed": 389, "queued without entry": 700, "not listed": n}
	if !maps.Equal(rep.Counts, want) || rep.Jobs["queued"] != n {
		r.Errorf("%+v of %v, want %v", rep.Counts, rep.Jobs, want)
	}
	r.sound()
	r.is(fmt.Sprint(n), "LLEN", "zpe:queue")
}

func TestZ72FsckSearchesLongListsForSoManyOnly(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	r := newRig(t)
	const n = 1300
	ids := make([]jobs.ID, n)
	for i := range ids {
		ids[i] = jobs.ID(fmt.Sprintf("j%05d", i))
	}
	r.submit(ids...)
	for _, id := range ids {
		must(r.Cancel(r.ctx(), id))(r)
	}
	rep := must(r.Fsck(r.ctx(), false))(r)
	if rep.Counts["stale entry"] != n || !clean(rep) {
		r.Errorf("canceled jobs: %+v, %d unchecked", rep.Counts, rep.Unchecked)
	}
	for _, id := range ids {
		r.do("LPUSH", "zpe:dlq", string(id))
		r.do("HSET", "zpe:status:"+string(id), "status", "queued")
		r.do("SET", "zpe:payload:"+string(id), "{}")
	}
	if rep := must(r.Fsck(r.ctx(), true))(r); rep.Unchecked != 300 || clean(rep) {
		r.Errorf("%+v, %d unchecked, clean=%v", rep.Counts, rep.Unchecked, clean(rep))
	}
	must(r.Fsck(r.ctx(), true))(r)
	r.sound()
}

func TestZ72FsckHidesNoDamageBehindWhatIsHarmless(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	r := newRig(t)
	const n = 10_500
	var ids []jobs.ID
	pipe := r.rdb.Pipeline()
	for i := range n {
		id := fmt.Sprintf("gone%05d", i) // jobs that have expired
		pipe.ZAdd(r.ctx(), "zpe:jobs:finished", redis.Z{Score: 5, Member: id})
		if i < 1300 {
			ids = append(ids, jobs.ID(fmt.Sprintf("c%05d", i)))
		}
	}
	must(pipe.Exec(r.ctx()))(r)
	r.submit("waits")
	r.submit(ids...)
	for _, id := range ids { // their entries stay in the queue until their turn comes
		must(r.Cancel(r.ctx(), id))(r)
	}
	r.submit("twice")
	for _, c := range [][]any{
		{"LPUSH", "zpe:queue", "twice"},
		{"RPUSH", "zpe:dlq", "waits"},
		{"ZADD", "zpe:lease:index", "1", "waits"},
		{"ZREM", "zpe:jobs:canceled", string(ids[0])},
	} {
		r.do(c...)
	}
	rep := must(r.Fsck(r.ctx(), false))(r)
	want := map[string]int{
		"listed without a job": n, "stale entry": len(ids), "in the queue twice": 1, "dead letter of a job that has not failed": 1,
		"index without lease": 1, "not listed": 1,
	}
	if !maps.Equal(rep.Counts, want) || rep.Unchecked != 0 || rep.Left != 4 {
		r.Errorf("%v, %d unchecked, %d left; want %v", rep.Counts, rep.Unchecked, rep.Left, want)
	}
	shown := map[bool]int{}
	for _, f := range rep.Findings {
		shown[f.Harmless]++
	}
	if shown[false] != 4 || shown[true] != 5000 {
		r.Errorf("%d findings and %d harmless ones are shown, want all 4, and 5000", shown[false], shown[true])
	}
}

func TestZ72FsckReportsNothingFalseUnderLoad(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	r := newRig(t)
	r.Now = time.Now
	r.LeaseTTL, r.Skew = 30*time.Millisecond, 0
	for i := range 3000 {
		r.submit(jobs.ID(fmt.Sprintf("base-%d", i)))
	}
	ctx, stop := context.WithCancel(r.ctx())
	var wg sync.WaitGroup
	var ended atomic.Int32
	for i := range 4 {
		c := queue.Caller{Worker: fmt.Sprint("w", i)}
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = r.Submit(ctx, jobs.ID(fmt.Sprintf("j-%d-%d", i, n)), []byte("{}"), "")
				g, err := r.Lease(ctx, c, queue.LeaseRequest{Renews: true})
				if err != nil || g.Job == "" {
					continue
				}
				switch rng.IntN(8) {
				case 0:
					_, _ = r.Queue.Fail(ctx, c, g.Job, g.LeaseID, queue.Failure{Code: "X", RetryPolicy: queue.ReturnUncounted})
				case 1:
					_, _ = r.Queue.Fail(ctx, c, g.Job, g.LeaseID, queue.Failure{Code: "X", RetryPolicy: queue.Retry})
				case 2:
					_, _ = r.Queue.Fail(ctx, c, g.Job, g.LeaseID, queue.Failure{Code: "X", RetryPolicy: queue.Final})
				case 3: // silent
				case 4:
					_, _ = r.Extend(ctx, c, g.Job, g.LeaseID, queue.Beat{})
				default:
					_, _, _ = r.Finish(ctx, c, g.Job, g.LeaseID, queue.Result{JSON: "{}"})
					ended.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = r.Reap(ctx)
			if dead, _, err := r.DeadLetters(ctx, 0, 5); err == nil {
				for _, j := range dead {
					_ = r.Requeue(ctx, j.ID)
				}
			}
		}
	})
	for range 12 {
		rep, err := r.Fsck(r.ctx(), false)
		if err != nil || len(rep.Counts) > 0 || rep.Unchecked > 0 {
			r.Errorf("%+v, %v", rep, err)
		}
	}
	stop()
	wg.Wait()
	if ended.Load() < 100 {
		r.Errorf("only %d jobs ended meanwhile", ended.Load())
	}
	r.sound()
}

func TestFsckStopsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(r.ctx())
	cancel()
	if _, err := r.Fsck(ctx, false); !errors.Is(err, context.Canceled) {
		r.Error(err)
	}
}
