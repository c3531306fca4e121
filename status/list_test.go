package status_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// trips counts what goes to Redis and back.
type trips struct{ n atomic.Int64 }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { t.n.Add(1); return next(ctx, cmd) }
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { t.n.Add(1); return next(ctx, cmds) }
}

// list returns the ids of all pages.
func list(t *testing.T, s *status.Store, q status.Query) (ids []string) {
	t.Helper()
	for range 10_000 {
		page, next, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			ids = append(ids, string(e.ID))
		}
		if len(page) > q.Limit {
			t.Fatalf("a page of %d, want %d at most", len(page), q.Limit)
		}
		if q.Cursor = next; next == "" {
			return ids
		}
	}
	t.Fatal("the list does not end")
	return nil
}

func wantList(t *testing.T, s *status.Store, state jobs.State, want ...string) {
	t.Helper()
	if got := list(t, s, status.Query{State: state, Limit: 50}); !slices.Equal(got, want) {
		t.Errorf("%v: %v, want %v", state, got, want)
	}
}

// members returns what is in the index of a state, right or wrong.
func members(t *testing.T, rdb *redis.Client, index string) []string {
	t.Helper()
	ids, err := rdb.ZRange(t.Context(), index, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func submit(t *testing.T, s *status.Store, job jobs.Job) {
	t.Helper()
	if _, err := s.Submit(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

func finish(t *testing.T, s *status.Store, c jobs.Claim, o jobs.Outcome) {
	t.Helper()
	if _, err := s.Finish(t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
}

func report(t *testing.T, s *status.Store, c jobs.Claim, hold time.Duration, p *jobs.Progress, lines jobs.Lines) {
	t.Helper()
	if err := s.Report(t.Context(), c, hold, p, lines); err != nil {
		t.Fatal(err)
	}
}

func release(t *testing.T, s *status.Store, c jobs.Claim, message string) {
	t.Helper()
	if err := s.Release(t.Context(), c, message); err != nil {
		t.Fatal(err)
	}
}

func TestJ07IndexFollowsEveryMoveOfAJob(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		at := time.Now().Add(-time.Hour)
		in := func(state string) {
			t.Helper()
			for _, other := range []string{"queued", "running", "succeeded", "failed", "canceled"} {
				want := []string{}
				if other == state {
					want = []string{"a"}
				}
				if got := members(t, rdb, "jobs:index:"+other); !slices.Equal(got, want) { //nolint:contextcheck // it takes the test's
					t.Errorf("job is %s; index of %s has %v", state, other, got)
				}
			}
			for _, key := range []string{"jobs:index", "jobs:index:" + state} {
				if got := rdb.ZScore(ctx, key, "a").Val(); int64(got) != at.UnixMilli()*1000 {
					t.Errorf("%s, %s: score %d, want %d: that of its submission", state, key, int64(got), at.UnixMilli()*1000)
				}
			}
		}
		// The message tells of the second only.
		job, told := jobs.Job{ID: "a", Kind: "mock", Submitted: at}, jobs.Job{ID: "a", Kind: "mock", Submitted: at.Truncate(time.Second)}
		get := func() jobs.Claim {
			t.Helper()
			c, err := s.Claim(ctx, told, time.Minute, jobs.Claim{})
			if err != nil || c.Verdict != jobs.Granted {
				t.Fatalf("claim: %+v, %v", c, err)
			}
			return c
		}
		submit(t, s, job)
		in("queued")
		c := get()
		in("running")
		submit(t, s, job) // known
		in("running")
		release(t, s, c, "again")
		in("queued")
		finish(t, s, get(), jobs.Outcome{State: jobs.Failed, Reason: "r"})
		in("failed")
		claim(t, s, "a", time.Minute, jobs.Ended)
		in("failed")
		if _, err := s.Requeue(ctx, told); err != nil {
			t.Fatal(err)
		}
		in("queued")
		finish(t, s, get(), jobs.Outcome{State: jobs.Succeeded})
		in("succeeded")
		if _, err := s.Cancel(ctx, "a"); !errors.Is(err, status.ErrEnded) {
			t.Fatal(err)
		}
		in("succeeded")
	})
}

func TestJ07CanceledAndLostJobsAreInTheirIndex(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		submit(t, s, jobs.Job{ID: "a"})
		if _, err := s.Cancel(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		wantList(t, s, jobs.Canceled, "a")
		wantList(t, s, jobs.Queued)
		// A job that runs while Redis loses all its data is found again.
		c := claim(t, s, "b", time.Minute, jobs.Granted)
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		// Its worker has nothing to tell at first, and somebody reads the index meanwhile.
		report(t, s, c, time.Minute, nil, jobs.Lines{})
		wantList(t, s, jobs.Running)
		report(t, s, c, time.Minute, &jobs.Progress{Done: 1, Total: 2, Step: "pages"}, jobs.Lines{})
		wantList(t, s, jobs.Running, "b")
	})
}

func TestJ07StaleEntriesAreLeftOutAndMended(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		for _, id := range []jobs.ID{"a", "b", "c"} {
			submit(t, s, jobs.Job{ID: id})
		}
		claim(t, s, "b", time.Minute, jobs.Granted)
		// A crash between document and index; a job that has expired; and no job id.
		rdb.ZRem(ctx, "jobs:index:running", "b")
		rdb.ZAdd(ctx, "jobs:index:queued", redis.Z{Score: float64(time.Now().UnixMicro()), Member: "b"}, redis.Z{Score: 5, Member: "x y"})
		rdb.Del(ctx, "job:c")
		wantList(t, s, jobs.Queued, "a")
		wantList(t, s, jobs.Running, "b")
		if got := members(t, rdb, "jobs:index:queued"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("index of queued jobs has %v after it was read, want a", got)
		}
		if got := members(t, rdb, "jobs:index"); len(got) != 2 {
			t.Errorf("index has %v, want what is known", got)
		}
	})
}

func TestJ07CursorIsSoundWithinOneMoment(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		at := time.Now().Add(-time.Minute)
		var want []string
		for i := range 500 { // capitals and marks: Redis orders bytes, whatever its locale
			id := fmt.Sprintf("%c%c.%03d", "aBz0"[i%4], "-_Ab"[i/4%4], i)
			submit(t, s, jobs.Job{ID: jobs.ID(id), Submitted: at})
			want = append(want, id)
		}
		slices.Sort(want)
		slices.Reverse(want)
		got := list(t, s, status.Query{Limit: 7})
		if !slices.Equal(got, want) {
			t.Errorf("listed %d of 500 jobs of one moment, or not by id", len(got))
		}
		// The job at the cursor may be gone.
		page, next, err := s.List(t.Context(), status.Query{Limit: 250})
		if err != nil || len(page) != 200 {
			t.Fatalf("%d jobs, %v; want 200 at most", len(page), err)
		}
		rdb.ZRem(t.Context(), "jobs:index", want[199])
		rest := list(t, s, status.Query{Limit: 100, Cursor: next})
		if !slices.Equal(rest, want[200:]) {
			t.Errorf("after a cursor whose job is gone: %d jobs from %v, want 300", len(rest), rest[:min(2, len(rest))])
		}
	})
}

func TestJ07CursorSurvivesConcurrentSubmits(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	const n = 400
	for i := range n {
		submit(t, s, jobs.Job{ID: jobs.ID(fmt.Sprintf("old%03d", i))})
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_, _ = s.Submit(t.Context(), jobs.Job{ID: jobs.ID(fmt.Sprintf("new%05d", i))})
			}
		}
	})
	got := list(t, s, status.Query{State: jobs.Queued, Limit: 9})
	close(stop)
	writing.Wait()
	seen, old := map[string]bool{}, 0
	for _, id := range got {
		if seen[id] {
			t.Errorf("%s comes twice", id)
		}
		seen[id] = true
		if strings.HasPrefix(id, "old") {
			old++
		}
	}
	if old != n {
		t.Errorf("%d of %d jobs that were there before", old, n)
	}
}

func TestJ08BadCursorIsToldFromTrouble(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		for _, bad := range []string{"x", "1", "/", "1/..", "-1/a", "1.5/a", "1e3/a", "+1/a", " 1/a", strings.Repeat("9", 40) + "/a", "1/" + strings.Repeat("a", 200), "\x00/\xff"} {
			if _, _, err := s.List(t.Context(), status.Query{Limit: 1, Cursor: bad}); !errors.Is(err, status.ErrCursor) || errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("cursor %q: %v, want ErrCursor", bad, err)
			}
		}
	})
}

// TestJ07PagesAreTwoRoundTrips has the round trips and what a page looks at; bench
// joblist has the times, with a million jobs.
func TestJ07PagesAreTwoRoundTrips(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	srv := redistest.New(t, "--appendonly", "no")
	rdb := srv.Client()
	const n = 100_000
	fill(t, rdb, n, 50_000)
	count := &trips{}
	rdb.AddHook(count)
	s := newStore(rdb, "w1")
	if _, _, err := s.List(t.Context(), status.Query{Limit: 1}); err != nil { // the server learns the script
		t.Fatal(err)
	}
	for _, q := range []status.Query{
		{Limit: 50},
		{Limit: 200},
		{Limit: 50, State: jobs.Failed},
		{Limit: 50, State: jobs.Queued},
		{Limit: 50, State: jobs.Canceled},
		{Limit: 50, Kind: "mock"},
		{Limit: 50, Kind: "none"},
		{Limit: 50, State: jobs.Queued, Kind: "mock"},
	} {
		for range 3 {
			before := count.n.Load()
			page, next, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			trips := int64(2)
			if q.State == jobs.Canceled {
				trips = 1 // there are none to be read
			}
			if got := count.n.Load() - before; got != trips {
				t.Errorf("%+v took %d round trips, want %d", q, got, trips)
			}
			want := q.Limit
			switch {
			case q.State == jobs.Failed:
				want = n / 50_000
			case q.State == jobs.Canceled, q.Kind == "none":
				want = 0
			}
			if q.Kind == "mock" {
				want = 5 // one in a hundred of the 500 that one call looks at
			}
			if len(page) != want {
				t.Errorf("%+v returned %d jobs, want %d", q, len(page), want)
			}
			if more := n > want && q.State != jobs.Failed && q.State != jobs.Canceled; (next != "") != more {
				t.Errorf("%+v: cursor %q", q, next)
			}
			if q.Cursor = next; next == "" {
				break
			}
		}
	}
}

// fill makes n jobs as Submit would, one in rare of them failed and one in a
// hundred of kind mock, the others pdf.
func fill(t *testing.T, rdb *redis.Client, n, rare int) {
	t.Helper()
	now := time.Now()
	const part = 5000
	for from := 0; from < n; from += part {
		_, err := rdb.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for i := from; i < min(n, from+part); i++ {
				id, at := fmt.Sprintf("job-%07d", i), now.Add(-time.Duration(n-i)*time.Millisecond)
				word, index, kind := "queued", "queued", "pdf"
				if i%rare == rare-1 {
					word, index = "failed", "failed"
				}
				if i%100 == 0 {
					kind = "mock"
				}
				pipe.Set(t.Context(), "job:"+id, `{"status":"`+word+`","progress":0,"message":"Waiting for a worker...","result_url":"","error_msg":"","updated_at":"2026-02-12T06:35:00Z"}`, 24*time.Hour)
				pipe.HSet(t.Context(), "{job:"+id+"}:detail", "kind", kind, "input", "x.pdf", "created_at", at.UnixMilli())
				z := redis.Z{Score: float64(at.UnixMilli() * 1000), Member: id}
				pipe.ZAdd(t.Context(), "jobs:index", z)
				pipe.ZAdd(t.Context(), "jobs:index:"+index, z)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestJ07HostileDocumentsBreakNoList(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		values := []string{
			"null", "[]", "{", "\x00\xff", `"completed"`, `{"status":7}`, `{"status":""}`, strings.Repeat("x", 3<<20),
			`{"status":"queued","progress":"x","message":[1]}`, `{"status":"queued","progress":1e300}`, `{"status":"paused"}`,
			`{"status":"queued","message":"` + strings.Repeat("y", 40<<10) + `"}`, "{\"status\":\"queued\",\"message\":\"\xff\"}", `{"status":"queued","progress":-5}`,
		}
		states := map[string]jobs.State{"h08": jobs.Queued, "h09": jobs.Queued, "h10": jobs.Running, "h12": jobs.Queued, "h13": jobs.Queued}
		for i, v := range values {
			id := fmt.Sprintf("h%02d", i)
			submit(t, s, jobs.Job{ID: jobs.ID(id)})
			rdb.Set(ctx, "job:"+id, v, 0)
		}
		submit(t, s, jobs.Job{ID: "list"})
		rdb.Del(ctx, "job:list")
		rdb.LPush(ctx, "job:list", "x")
		page, _, err := s.List(ctx, status.Query{Limit: 50})
		if err != nil || len(page) != len(values) {
			t.Fatalf("%d jobs, %v; want all %d strings", len(page), err, len(values))
		}
		for _, e := range page {
			if e.State() != states[string(e.ID)] || e.Progress < 0 || e.Progress > 100 || len(e.Message) > 64 {
				t.Errorf("%s is %v at %d%%, message of %d bytes; want %v", e.ID, e.State(), e.Progress, len(e.Message), states[string(e.ID)])
			}
		}
		if _, _, err := s.List(ctx, status.Query{Limit: 50, State: jobs.Queued}); err != nil {
			t.Error(err)
		}
		wantList(t, s, jobs.Running, "h10")
	})
}

func TestJ10LinesBeforeOneAreNotThatOne(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		report(t, s, c, time.Minute, nil, jobs.Lines{Text: []string{"one", "two", "three"}})
		all, err := s.Lines(t.Context(), "a", status.LogQuery{Tail: 10})
		if err != nil {
			t.Fatal(err)
		}
		last := len(all) - 1
		for limit, want := range map[int][]status.LogLine{10: all[:last], 1: all[last-1 : last]} {
			if got, err := s.LinesBefore(t.Context(), "a", all[last].Pos, limit); err != nil || !slices.Equal(got, want) {
				t.Errorf("the last %d before %+v are %+v, %v", limit, all[last], got, err)
			}
		}
	})
}

func TestJ07AJobWithoutATimeIsListedAtThatOfItsEntry(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		submit(t, s, jobs.Job{ID: "a", Submitted: at})
		rdb.Del(t.Context(), "{job:a}:detail")
		page, _, err := s.List(t.Context(), status.Query{Limit: 1})
		if err != nil || len(page) != 1 || !page[0].Created.Equal(at) {
			t.Errorf("listed %+v, %v; want it created at %v", page, err, at)
		}
	})
}

func TestJ10LogTailSinceAndAfter(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		if _, err := s.Lines(ctx, "a", status.LogQuery{Tail: 5}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("log of no job: %v, want ErrNotExist", err)
		}
		submit(t, s, jobs.Job{ID: "a"})
		count := &trips{}
		rdb.AddHook(count)
		want := func(q status.LogQuery, want ...string) []status.LogLine {
			t.Helper()
			before := count.n.Load()
			lines, err := s.Lines(ctx, "a", q)
			if err != nil {
				t.Fatal(err)
			}
			if got := count.n.Load() - before; got != 1 {
				t.Errorf("%d round trips, want 1", got)
			}
			var got []string
			for _, l := range lines {
				got = append(got, l.Text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %q, want %q", q, got, want)
			}
			return lines
		}
		want(status.LogQuery{Tail: 5}) // none is no error
		base := time.UnixMilli(1_700_000_000_000)
		stored := []any{"0 10"} // no line dropped, 10 bytes
		for i := range 10 {
			stored = append(stored, fmt.Sprintf("%d %d", base.Add(time.Duration(i/2)*time.Second).UnixMilli(), i))
		}
		if err := rdb.RPush(ctx, "{job:a}:log", stored...).Err(); err != nil {
			t.Fatal(err)
		}
		all := want(status.LogQuery{Tail: 100}, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
		want(status.LogQuery{Tail: 3}, "7", "8", "9")
		want(status.LogQuery{Tail: 100, Since: base.Add(3 * time.Second)}, "6", "7", "8", "9")
		want(status.LogQuery{Tail: 2, Since: base.Add(3 * time.Second)}, "8", "9")
		want(status.LogQuery{Tail: 100, Since: base.Add(time.Hour)})
		want(status.LogQuery{Tail: 2, After: all[4].Pos}, "5", "6")
		want(status.LogQuery{Tail: 2, After: "0"}, "0", "1")
		want(status.LogQuery{Tail: 5, After: all[0].Pos, Since: base.Add(4 * time.Second)}, "8", "9")
		want(status.LogQuery{Tail: 5, After: all[8].Pos, Since: base.Add(time.Second)}, "9")
		want(status.LogQuery{Tail: 5, After: all[9].Pos})
		for _, bad := range []string{"---", "5", "-", "1-", strings.Repeat("9", 39) + "-", "99999999999999999999-1"} {
			want(status.LogQuery{Tail: 1, After: bad}, "9")
		}
	})
}

// TestJ07ClusterTakesEverything runs all of it on a cluster, where a script may
// touch one slot only.
func TestJ07ClusterTakesEverything(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts a cluster")
	srv := redistest.New(t, "--cluster-enabled", "yes")
	slots := []any{"CLUSTER", "ADDSLOTS"}
	for i := range 16384 {
		slots = append(slots, i)
	}
	if err := srv.Client().Do(t.Context(), slots...).Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{srv.Addr()}, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	s := status.New(rdb)
	s.Worker = "w1"
	waitUntil(t, func() bool { // it takes a moment to open
		_, err := s.Submit(t.Context(), jobs.Job{ID: "a", Kind: "mock"})
		return err == nil
	})
	c := claim(t, s, "a", time.Minute, jobs.Granted)
	if held, err := s.Held(t.Context()); err != nil || len(held) != 1 {
		t.Errorf("held %v, %v", held, err)
	}
	wantList(t, s, jobs.Running, "a")
	finish(t, s, c, jobs.Outcome{State: jobs.Failed, Reason: "r"})
	wantList(t, s, jobs.Failed, "a")
	if _, err := s.Lines(t.Context(), "a", status.LogQuery{Tail: 5}); err != nil {
		t.Error(err)
	}
	if _, err := s.SetDraining(t.Context(), true); err != nil {
		t.Error(err)
	}
	if on, err := s.Ready(t.Context()); err != nil || !on {
		t.Errorf("ready: %v, %v", on, err)
	}
	if _, err := s.RegisterQueue(t.Context(), "q", status.Queue{Topic: "t", Subscription: "s"}); err != nil {
		t.Error(err)
	}
	if r, err := s.Fsck(t.Context(), true); err != nil || len(r.Findings) != 0 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

func TestJ07J08ListsPassOverWhatIsNoEntry(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		now := time.Now()
		for i, id := range []jobs.ID{"old", "new"} {
			submit(t, s, jobs.Job{ID: id, Submitted: now.Add(time.Duration(i-2) * time.Second)})
		}
		score := float64(now.UnixMicro())
		for i := range 5 {
			rdb.ZAdd(ctx, "jobs:index", redis.Z{Score: score, Member: fmt.Sprintf("no id %d", i)})
		}
		for id, score := range map[string]float64{"a": math.Inf(1), "b": 1e300, "c": -5, "d": math.Inf(-1)} {
			rdb.ZAdd(ctx, "jobs:index", redis.Z{Score: score, Member: id})
			rdb.Set(ctx, "job:"+id, `{"status":"completed"}`, 0)
		}
		var got []string
		cursor := ""
		for range 20 {
			page, next, err := s.List(ctx, status.Query{Limit: 1, Cursor: cursor})
			if err != nil {
				t.Fatalf("cursor %q: %v", cursor, err)
			}
			for _, e := range page {
				got = append(got, string(e.ID))
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		if !slices.Equal(got, []string{"new", "old"}) || cursor != "" {
			t.Errorf("listed %q, and then %q; want new, old and the end", got, cursor)
		}
	})
}

func TestJ10AKeyOfSomethingElseIsALogWithoutLines(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		submit(t, s, jobs.Job{ID: "a"})
		rdb.LPush(t.Context(), "{job:a}:log", "x")
		for _, q := range []status.LogQuery{{Tail: 5}, {Tail: 5, After: "1-1"}} {
			if lines, err := s.Lines(t.Context(), "a", q); err != nil || len(lines) > 0 {
				t.Errorf("%+v: %v, %v; one such job must not look like a Redis that is away", q, lines, err)
			}
		}
	})
}
