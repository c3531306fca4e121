package queue_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
)

// pages lists all jobs of a state, limit a page.
func (r *rig) pages(state string, limit int) (ids []string) {
	r.Helper()
	for cursor := ""; ; {
		page, next, err := r.List(r.ctx(), queue.ListQuery{State: state, Limit: limit, Cursor: cursor})
		if err != nil || len(page) > limit {
			r.Fatalf("%d jobs, %v", len(page), err)
		}
		for _, j := range page {
			ids = append(ids, string(j.ID))
		}
		if cursor = next; next == "" {
			return ids
		}
	}
}

func (r *rig) lists(state, want string) {
	r.Helper()
	for _, limit := range []int{1, 2, 100} {
		if got := strings.Join(r.pages(state, limit), " "); got != want {
			r.Errorf("%d a page, %q jobs are %q, want %q", limit, state, got, want)
		}
	}
}

func TestJ07JobsAreListedByStateNewestFirst(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.lists("", "")
		for _, id := range []jobs.ID{"leased", "delayed", "finished", "dead", "running-canceled", "queued", "waiting-canceled"} {
			r.submit(id)
			r.clock.pass(time.Second)
		}
		r.lease(w1, "leased")
		r.fail(w1, r.lease(w1, "delayed"), queue.Retry)
		must(r.finish(w1, r.lease(w1, "finished"), `{}`))(r)
		r.fail(w1, r.lease(w1, "dead"), queue.Final)
		g := r.lease(w1, "running-canceled")
		must(r.Cancel(r.ctx(), g.Job))(r)
		r.lists("started", "running-canceled leased")
		r.fail(w1, g, queue.Retry)
		must(r.Cancel(r.ctx(), "waiting-canceled"))(r)

		r.lists("", "waiting-canceled queued running-canceled dead finished delayed leased")
		r.lists("queued", "queued delayed")
		r.lists("started", "leased")
		r.lists("finished", "finished")
		r.lists("failed", "dead")
		r.lists("canceled", "waiting-canceled running-canceled")
		r.lists("no state", "")
		if err := r.Requeue(r.ctx(), "dead"); err != nil {
			r.Fatal(err)
		}
		r.lists("queued", "queued dead delayed")
		r.lists("failed", "")
	})
}

func TestJ07JobsOfOneMomentAreOrderedByTheirBytes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		ids := []string{"a", "A", "b", "Z", "a.b", "a-b", "a_b", "0", "aa", "B9"}
		for _, id := range ids {
			r.submit(jobs.ID(id))
		}
		r.clock.pass(time.Microsecond) // which no answer shows
		r.submit("00")
		ids = append(ids, "00")
		slices.Sort(ids)
		slices.Reverse(ids)
		r.lists("", strings.Join(ids, " "))
		r.lists("queued", strings.Join(ids, " "))
	})
}

func TestJ07PagesHoldStillWhileJobsComeAndMove(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 300 { // in groups that came at one moment
		r.submit(jobs.ID(fmt.Sprintf("j%03d", i)))
		if i%37 == 0 {
			r.clock.pass(time.Millisecond)
		}
	}
	want := r.pages("", 1000)
	if len(want) != 300 {
		t.Fatalf("%d jobs", len(want))
	}
	var got []string
	for cursor, n := "", 0; ; n++ {
		page, next, err := r.List(r.ctx(), queue.ListQuery{Limit: 7, Cursor: cursor})
		if err != nil || len(page) == 0 {
			t.Fatal(page, err)
		}
		for _, j := range page {
			got = append(got, string(j.ID))
		}
		if cursor = next; next == "" {
			break
		}
		r.clock.pass(time.Millisecond)
		r.submit(jobs.ID(fmt.Sprintf("new%03d", n)))
		g := must(r.Lease(r.ctx(), w1, queue.LeaseRequest{Renews: true}))(r)
		switch n % 3 {
		case 0:
			r.fail(w1, g, queue.Final)
		case 1:
			must(r.finish(w1, g, "{}"))(r)
		}
		must(r.Cancel(r.ctx(), page[len(page)-1].ID))(r) // the cursor's own job
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages %v\nwant %v", got, want)
	}
}

func TestJ07CursorThatNoPageHadIsAnError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.submit("a", "b", "c")
	_, next, err := r.List(r.ctx(), queue.ListQuery{Limit: 1})
	if err != nil || next == "" {
		t.Fatal(next, err)
	}
	for _, cursor := range []string{
		"x", ".", "1.", ".a", "-1.a", "+1.a", "01.a", "1e3.a", "9223372036854775808.a", "1.a b", "1.a..b", "1.\x00", " " + next, next + "/",
		"1." + strings.Repeat("a", 200),
	} {
		if page, _, err := r.List(r.ctx(), queue.ListQuery{Limit: 1, Cursor: cursor}); !errors.Is(err, queue.ErrCursor) {
			t.Errorf("cursor %q: %v, %v", cursor, page, err)
		}
	}
	for _, limit := range []int{0, -1, queue.MaxList + 1} {
		if _, _, err := r.List(r.ctx(), queue.ListQuery{Limit: limit}); err == nil {
			t.Errorf("limit %d is taken", limit)
		}
	}
	// One that is written like a cursor is a place in the list, whoever wrote it.
	if page, _, err := r.List(r.ctx(), queue.ListQuery{Limit: 10, Cursor: "9223372036854775807.zzz"}); err != nil || len(page) != 3 {
		t.Errorf("%v, %v", page, err)
	}
}

func TestJ07ExpiredJobsLeaveTheListsAndOldOnesThatWaitStay(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	onBoth(t, func(r *rig) {
		const n = 1500
		var ids []jobs.ID
		for i := range n {
			ids = append(ids, jobs.ID(fmt.Sprintf("j%04d", i)))
		}
		r.submit(ids...)
		r.clock.pass(week + time.Second)
		r.submit("new", "new-gone")
		stays := 0
		for i, id := range ids {
			if i%5 == 0 {
				stays++ // it was put off meanwhile, so its status is kept for longer
				continue
			}
			r.do("DEL", "zpe:status:"+string(id))
		}
		r.do("DEL", "zpe:status:new-gone") // by accident: it is too young
		var at queue.Place
		dropped, rounds := 0, 1
		for ; rounds < 10; rounds++ {
			next, gone, err := r.Unlist(r.ctx(), at)
			if err != nil {
				r.Fatal(err)
			}
			dropped += gone
			if at = next; at.End() {
				break
			}
		}
		if dropped != n-stays || rounds != 2 {
			r.Errorf("dropped %d in %d rounds, want %d in 2", dropped, rounds, n-stays)
		}
		r.is(strconv.Itoa(stays+2), "ZCARD", "zpe:jobs:queued")

		page, next, err := r.List(r.ctx(), queue.ListQuery{Limit: 2})
		if err != nil || len(page) != 1 || page[0].ID != "new" || next == "" {
			r.Errorf("%v, %q, %v; want the new job, and more", page, next, err)
		}
		r.is("redis: nil", "ZSCORE", "zpe:jobs:queued", "new-gone")
		if got := len(r.pages("queued", 100)); got != stays+1 {
			r.Errorf("%d jobs are listed, want %d", got, stays+1)
		}
	})
}

func TestJ07ForeignKeysKeepNoJobFromMovingAndHideNoOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a", "b", "c")
		r.do("DEL", "zpe:status:b")
		r.do("SET", "zpe:status:b", "mine")
		if got := r.pages("queued", 2); !slices.Equal(got, []string{"c", "a"}) {
			r.Errorf("%v", got)
		}
		r.do("DEL", "zpe:jobs:started")
		r.do("SET", "zpe:jobs:started", "mine")
		g := r.lease(w1, "a")
		if _, err := r.finish(w1, g, "{}"); err != nil {
			r.Error(err)
		}
		r.status("a", "finished")
		if got := r.pages("finished", 2); !slices.Equal(got, []string{"a"}) {
			r.Errorf("%v", got)
		}
		if _, _, err := r.List(r.ctx(), queue.ListQuery{State: "started", Limit: 1}); err == nil {
			r.Error("what is no list is listed")
		}
		for _, limit := range []int{1, 2} { // also from a cursor on
			if got := r.pages("", limit); !slices.Equal(got, []string{"c", "a"}) {
				r.Errorf("%d a page, all jobs are %v", limit, got)
			}
		}
		r.clock.pass(week + time.Second)
		r.do("DEL", "zpe:status:a", "zpe:status:c")
		r.do("DEL", "zpe:jobs:queued")
		r.do("SET", "zpe:jobs:queued", "mine") // the first list, too
		at, dropped, err := r.Unlist(r.ctx(), queue.Place{})
		if err != nil || dropped != 1 || !at.End() {
			r.Errorf("%d dropped, up to %v, %v; want the finished job, and the end", dropped, at, err)
		}
		r.is("mine", "GET", "zpe:jobs:queued")
		if _, err := r.Fsck(r.ctx(), true); err == nil || !strings.Contains(err.Error(), "zpe:jobs:queued") {
			r.Errorf("fsck: %v, want which key is none of ours", err)
		}
	})
}

func TestJ07JobFromBeforeTheListsIsListedByItsOwnTime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		for range 200 {
			at := time.UnixMicro(rand.Int64N(4e15)).UTC()
			r.do("FLUSHDB")
			r.do("HSET", "zpe:status:a", "status", "queued", "created_at", at.Format(time.RFC3339Nano))
			r.do("SET", "zpe:payload:a", "{}")
			r.do("LPUSH", "zpe:queue", "a")
			r.lease(w1, "a")
			if got := r.rdb.ZScore(r.ctx(), "zpe:jobs:started", "a").Val(); got != float64(at.UnixMilli()) {
				r.Fatalf("created at %v: listed at %v, want %d", at, got, at.UnixMilli())
			}
		}
		for _, created := range []string{"", "yesterday", "2026-11-22", "9999-99-99T99:99:99Z"} {
			r.do("FLUSHDB")
			r.submit("a")
			r.do("DEL", "zpe:jobs:queued")
			r.do("HSET", "zpe:status:a", "created_at", created)
			r.lease(w1, "a")
			r.is("1", "ZCARD", "zpe:jobs:started")
		}
	})
}

func TestJ07JobThatAGatewayWithoutListsHasMovedIsListedOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		leased := func(id string) queue.Grant {
			r.do("RPOP", "zpe:queue")
			r.do("HSET", "zpe:status:"+id, "status", "started")
			r.do("HSET", "zpe:lease:"+id, "worker_id", "w1", "lease_id", "l", "expires_at", "9e9", "ttl", "600")
			r.do("ZADD", "zpe:lease:index", "9e9", id)
			return queue.Grant{Job: jobs.ID(id), LeaseID: "l"}
		}
		putBack := func(id string) {
			r.do("ZREM", "zpe:lease:index", id)
			r.do("DEL", "zpe:lease:"+id)
			r.do("HSET", "zpe:status:"+id, "status", "queued")
			r.do("RPUSH", "zpe:queue", id)
		}
		for name, moves := range map[string]func() queue.Grant{
			"leased there": func() queue.Grant { return leased("a") },
			"put back there": func() queue.Grant {
				r.lease(w1, "a")
				putBack("a")
				return r.lease(w1, "a")
			},
			"leased there, put back here and leased there": func() queue.Grant {
				r.fail(w1, leased("a"), queue.ReturnUncounted)
				return leased("a")
			},
			"submitted there": func() queue.Grant {
				r.do("DEL", "zpe:jobs:queued")
				return r.lease(w1, "a")
			},
		} {
			r.do("FLUSHDB")
			r.submit("a")
			created := r.clock.Now().UnixMilli()
			r.clock.pass(time.Second)
			if _, err := r.finish(w1, moves(), "{}"); err != nil {
				r.Fatal(name, err)
			}
			var where []string
			for _, state := range queue.States {
				if at, err := r.rdb.ZScore(r.ctx(), "zpe:jobs:"+state, "a").Result(); err == nil {
					where = append(where, fmt.Sprintf("%s at %.0f", state, at))
				}
			}
			if want := []string{fmt.Sprintf("finished at %d", created)}; !slices.Equal(where, want) {
				r.Errorf("%s: listed as %q, want %q", name, where, want)
			}
			r.sound()
		}
	})
}

func TestJ07AttemptAndTimesOfRunsAreKept(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("a")
		if j := r.status("a", "queued"); j.Attempt != 0 || !j.LeasedAt.IsZero() {
			r.Errorf("%+v", j)
		}
		first := r.clock.Now()
		r.fail(w1, r.lease(w1, "a"), queue.Retry)
		if j := r.status("a", "queued"); j.Attempt != 1 || !j.FirstLeasedAt.Equal(first) {
			r.Errorf("%+v", j)
		}
		r.clock.pass(time.Minute)
		g := r.lease(w1, "a")
		must(r.finish(w1, g, "{}"))(r)
		j := r.status("a", "finished")
		if j.Attempt != 2 || !j.FirstLeasedAt.Equal(first) || !j.LeasedAt.Equal(first.Add(time.Minute)) {
			r.Errorf("%+v", j)
		}
		all := must(r.Jobs(r.ctx(), []jobs.ID{"gone", "a"}))(r)
		if len(all) != 1 || all[0].ID != "a" || all[0].Attempt != 2 {
			r.Errorf("%+v", all)
		}
		r.submit("b")
		r.fail(w1, r.lease(w1, "b"), queue.Final)
		if err := r.Requeue(r.ctx(), "b"); err != nil {
			r.Fatal(err)
		}
		if j := r.status("b", "queued"); j.Attempt != 0 || !j.FirstLeasedAt.IsZero() {
			r.Errorf("queued anew: %+v", j)
		}
		r.do("HDEL", "zpe:status:a", "attempt") // as before there was such a field
		if j := r.status("a", "finished"); j.Attempt != 0 {
			r.Errorf("%+v", j)
		}
	})
}

func TestJ07ListsReadNoTracebacks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.submit("a")
	g := r.lease(w1, "a")
	must(r.Queue.Fail(r.ctx(), w1, "a", g.LeaseID, queue.Failure{Code: "X", Message: "y", Traceback: "here", RetryPolicy: queue.Final}))(r)
	page, _, err := r.List(r.ctx(), queue.ListQuery{Limit: 1})
	if err != nil || len(page) != 1 || page[0].Traceback != "" || page[0].ErrorMessage != "y" {
		t.Errorf("%+v, %v", page, err)
	}
	if j := r.status("a", "failed"); j.Traceback != "here" {
		t.Errorf("%+v", j)
	}
}

func TestJ07J08ListsPassOverWhatIsNoEntry(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		r.submit("old")
		r.clock.pass(time.Second)
		r.submit("new")
		list := "zpe:jobs:queued"
		at := float64(r.clock.now.UnixMilli())
		for i := range 3 {
			r.rdb.ZAdd(r.ctx(), list, redis.Z{Score: at + float64(i+1), Member: fmt.Sprintf("no id %d", i)})
		}
		for id, score := range map[string]float64{"a": math.Inf(1), "b": 1e300, "c": -5, "d": math.Inf(-1)} {
			r.rdb.ZAdd(r.ctx(), list, redis.Z{Score: score, Member: id})
			r.rdb.HSet(r.ctx(), "zpe:status:"+id, "status", "queued")
		}
		if got := strings.Join(r.pages("", 1), " "); got != "new old" {
			r.Errorf("listed %q, want new old", got)
		}
	})
}

func TestDeadLettersOfExpiredJobsAreSwept(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		const n = 1500
		args := []any{"LPUSH", "zpe:dlq"}
		for i := range n {
			args = append(args, fmt.Sprintf("gone%04d", i))
		}
		r.do("HSET", "zpe:status:first", "status", "failed")
		r.do("LPUSH", "zpe:dlq", "first") // it has not expired: someone has changed it since
		r.do(args...)
		r.submit("a", "b")
		r.do("LPUSH", "zpe:dlq", "a", "b")
		var at queue.Place
		dropped := 0
		for range 10 {
			next, gone, err := r.Unlist(r.ctx(), at)
			if err != nil {
				r.Fatal(err)
			}
			dropped += gone
			if at = next; at.End() {
				break
			}
		}
		if dropped != n || !at.End() {
			r.Errorf("dropped %d, end %t; want %d", dropped, at.End(), n)
		}
		r.is("[b a first]", "LRANGE", "zpe:dlq", 0, -1)
		if stats, err := r.Stats(r.ctx()); err != nil || stats.Dead != 3 {
			r.Errorf("%+v, %v; want 3 dead letters", stats, err)
		}
	})
}
