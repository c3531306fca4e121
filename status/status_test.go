package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redisdb"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// onBoth runs a test against the embedded server and against a real one.
func onBoth(t *testing.T, test func(t *testing.T, s *status.Store, rdb *redis.Client)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		testrun.Once(t, "the scripts run in Lua of others, and the same code of ours asks a real server as well")
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), DisableIdentity: true, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
		t.Cleanup(func() { _ = rdb.Close() })
		test(t, newStore(rdb, "w1"), rdb)
	})
	t.Run("redis", func(t *testing.T) {
		rdb := redistest.New(t).Client()
		test(t, newStore(rdb, "w1"), rdb)
	})
}

func newStore(rdb *redis.Client, worker string) *status.Store {
	s := status.New(rdb)
	s.Worker = worker
	return s
}

// claim claims a job and fails the test unless the verdict is want.
func claim(t *testing.T, s *status.Store, id jobs.ID, hold time.Duration, want jobs.Verdict) jobs.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), jobs.Job{ID: id, Kind: "mock"}, hold, jobs.Claim{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Verdict != want {
		t.Fatalf("claim of %s: verdict %d, want %d (%+v)", id, c.Verdict, want, c)
	}
	return c
}

// document reads job:ID as any frontend would.
func document(t *testing.T, rdb *redis.Client, id jobs.ID) map[string]any {
	t.Helper()
	text, err := rdb.Get(t.Context(), "job:"+string(id)).Result()
	if err != nil {
		t.Fatalf("GET job:%s: %v", id, err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("job:%s is not JSON: %v\n%s", id, err, text)
	}
	return doc
}

func wantDocument(t *testing.T, rdb *redis.Client, id jobs.ID, state string, progress float64, message, result, errMsg string) {
	t.Helper()
	doc := document(t, rdb, id)
	at, _ := doc["updated_at"].(string)
	if when, err := time.Parse(time.RFC3339, at); err != nil || !strings.HasSuffix(at, "Z") || time.Since(when) > time.Minute {
		t.Errorf("updated_at is %q, want RFC 3339 in UTC of now", at)
	}
	delete(doc, "updated_at")
	want := map[string]any{"status": state, "progress": progress, "message": message, "result_url": result, "error_msg": errMsg}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Errorf("job:%s (-want +got):\n%s", id, diff)
	}
	if ttl := rdb.TTL(t.Context(), "job:"+string(id)).Val(); ttl > 24*time.Hour || ttl < 24*time.Hour-time.Minute {
		t.Errorf("TTL of job:%s is %s, want 24 h: every write renews it", id, ttl)
	}
}

func age(t *testing.T, rdb *redis.Client) {
	t.Helper()
	if err := rdb.Expire(t.Context(), "job:a", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestF30F31F32F36TheLifeOfADocument(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		if fresh, err := s.Submit(ctx, jobs.Job{ID: "a", Kind: "pdf", Input: "uploads/a/x.pdf"}); err != nil || !fresh {
			t.Fatalf("submit: %v, %v", fresh, err)
		}
		wantDocument(t, rdb, "a", "queued", 0, "Waiting for a worker...", "", "")
		age(t, rdb)
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		wantDocument(t, rdb, "a", "processing", 0, "Processing started...", "", "")
		age(t, rdb)
		release(t, s, c, "Worker stopped; waiting for another worker")
		wantDocument(t, rdb, "a", "queued", 0, "Worker stopped; waiting for another worker", "", "")
		age(t, rdb)
		c = claim(t, s, "a", time.Minute, jobs.Granted)
		wantDocument(t, rdb, "a", "processing", 0, "Processing started...", "", "")
		age(t, rdb)
		p := jobs.Progress{Done: 5, Total: 12, Message: "Page 5/12 analyzing..."}
		report(t, s, c, time.Minute, &p, jobs.Lines{Text: []string{"line"}})
		wantDocument(t, rdb, "a", "processing", 41, "Page 5/12 analyzing...", "", "")
		age(t, rdb)
		report(t, s, c, time.Minute, nil, jobs.Lines{}) // a pulse changes no word but renews
		wantDocument(t, rdb, "a", "processing", 41, "Page 5/12 analyzing...", "", "")
		age(t, rdb)
		finish(t, s, c, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/a/result.json", Pages: 12}})
		wantDocument(t, rdb, "a", "completed", 100, "Processing completed!", "results/a/result.json", "")
	})
}

func TestF32FailureKeepsTheProgressAsItStood(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		p := jobs.Progress{Done: 1, Total: 2, Message: "Page 1/2 analyzing..."}
		report(t, s, c, time.Minute, &p, jobs.Lines{})
		reason := `broken "page" \ ` + strings.Repeat("é", 5000)
		finish(t, s, c, jobs.Outcome{State: jobs.Failed, Reason: reason})
		doc := document(t, rdb, "a")
		got, _ := doc["error_msg"].(string)
		if len(got) > status.MaxErrorMsg || !strings.HasPrefix(got, `broken "page" \ éé`) {
			t.Errorf("error_msg is %d bytes: %.30q…", len(got), got)
		}
		wantDocument(t, rdb, "a", "failed", 50, "Error occurred", "", got)
	})
}

func TestF33SubmitLeavesWhatIsKnownAlone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		claim(t, s, "a", time.Minute, jobs.Granted)
		if fresh, err := s.Submit(t.Context(), jobs.Job{ID: "a"}); err != nil || fresh {
			t.Fatalf("submit of a running job: %v, %v; want false", fresh, err)
		}
		wantDocument(t, rdb, "a", "processing", 0, "Processing started...", "", "")
	})
}

func TestF11StaleAttemptWritesNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		stale := claim(t, s, "a", time.Millisecond, jobs.Granted)
		waitUntil(t, func() bool {
			c, err := s.Claim(ctx, jobs.Job{ID: "a"}, time.Minute, jobs.Claim{})
			if err != nil {
				t.Fatal(err)
			}
			return c.Verdict == jobs.Granted
		})
		before := document(t, rdb, "a")
		p := jobs.Progress{Done: 9, Total: 10, Message: "stale"}
		if err := s.Report(ctx, stale, time.Minute, &p, jobs.Lines{Text: []string{"stale"}}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("stale report: %v, want ErrLeaseLost", err)
		}
		if _, err := s.Finish(ctx, stale, jobs.Outcome{State: jobs.Failed, Reason: "stale"}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("stale finish: %v, want ErrLeaseLost", err)
		}
		if err := s.Release(ctx, stale, "stale"); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("stale release: %v, want ErrLeaseLost", err)
		}
		if diff := cmp.Diff(before, document(t, rdb, "a")); diff != "" {
			t.Errorf("a stale attempt changed the document:\n%s", diff)
		}
	})
}

func TestF33TerminalStatusIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		finish(t, s, c, jobs.Outcome{State: jobs.Failed, Reason: "first"})
		before := document(t, rdb, "a")
		if _, err := s.Finish(ctx, c, jobs.Outcome{State: jobs.Succeeded}); err != nil {
			t.Errorf("second finish: %v, want nil: the ack may go out", err)
		}
		p := jobs.Progress{Done: 1, Total: 2}
		if err := s.Report(ctx, c, time.Minute, &p, jobs.Lines{}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("report after the end: %v, want ErrLeaseLost", err)
		}
		if ended := claim(t, s, "a", time.Minute, jobs.Ended); ended.State != jobs.Failed {
			t.Errorf("claim after the end says %v, want failed", ended.State)
		}
		if diff := cmp.Diff(before, document(t, rdb, "a")); diff != "" {
			t.Errorf("a terminal document changed:\n%s", diff)
		}
		if n := rdb.HGet(ctx, "{job:a}:detail", "outcomes").Val(); n != "1" {
			t.Errorf("%s outcomes recorded, want 1", n)
		}
	})
}

func TestF19CancelIsShown(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		submit(t, s, jobs.Job{ID: "queued"})
		if _, err := s.Cancel(ctx, "queued"); err != nil {
			t.Fatal(err)
		}
		wantDocument(t, rdb, "queued", "canceled", 0, "Canceled", "", "")
		if log, err := s.Lines(ctx, "queued", status.LogQuery{Tail: 9}); err != nil || len(log) != 1 || log[0].Text != "canceled" {
			t.Errorf("the log of a job canceled while it was queued is %+v, %v, want one line, canceled", log, err)
		}
		// One that was handed back keeps the lines of its earlier attempt.
		back := claim(t, s, "back", time.Minute, jobs.Granted)
		if err := s.Release(ctx, back, "attempt 1 handed back"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cancel(ctx, "back"); err != nil {
			t.Fatal(err)
		}
		if log, err := s.Lines(ctx, "back", status.LogQuery{Tail: 9}); err != nil || len(log) != 3 || log[2].Text != "canceled" {
			t.Errorf("the log of a job canceled after it was handed back is %+v, %v, want three lines, the last canceled", log, err)
		}
		if _, err := s.Cancel(ctx, "queued"); !errors.Is(err, status.ErrEnded) {
			t.Errorf("cancel of an ended job: %v, want ErrEnded", err)
		}
		// A job whose worker died after the cancel does not start again.
		claim(t, s, "died", time.Millisecond, jobs.Granted)
		if _, err := s.Cancel(ctx, "died"); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, func() bool {
			got, err := s.Claim(ctx, jobs.Job{ID: "died"}, time.Minute, jobs.Claim{})
			return err == nil && got.Verdict == jobs.Ended && got.State == jobs.Canceled
		})
		wantDocument(t, rdb, "died", "canceled", 0, "Canceled", "", "")
		lines, err := s.Lines(ctx, "died", status.LogQuery{Tail: 9})
		if last := len(lines) - 1; err != nil || last < 0 || lines[last].Text != "attempt 1 canceled" {
			t.Errorf("its log is %+v, %v, want one that ends with the cancel", lines, err)
		}
	})
}

func TestF16ScriptFlushAndLostDataAreSurvived(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		if err := rdb.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		p := jobs.Progress{Done: 1, Total: 2, Message: "Page 1/2 analyzing..."}
		if err := s.Report(ctx, c, time.Minute, &p, jobs.Lines{}); err != nil {
			t.Fatalf("report after SCRIPT FLUSH: %v", err)
		}
		if err := rdb.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		claim(t, s, "b", time.Minute, jobs.Granted) // in a pipeline with the index
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		// The attempt that runs goes on, and is the owner still.
		if err := s.Report(ctx, c, time.Minute, &p, jobs.Lines{}); err != nil {
			t.Fatalf("report after FLUSHALL: %v", err)
		}
		claim(t, s, "a", time.Minute, jobs.Busy)
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Finish(ctx, c, jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/a/result.json"}}); err != nil {
			t.Fatalf("finish after FLUSHALL: %v", err)
		}
		wantDocument(t, rdb, "a", "completed", 100, "Processing completed!", "results/a/result.json", "")
	})
}

func TestF16FailoverThatLosesTheLastClaimIsSurvived(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		release(t, s, c, "again")
		before := rdb.HGetAll(ctx, "{job:a}:claim").Val()
		second := claim(t, s, "a", time.Minute, jobs.Granted)
		// The replica had not seen the second claim.
		rdb.Del(ctx, "{job:a}:claim")
		rdb.HSet(ctx, "{job:a}:claim", before)
		if err := s.Report(ctx, second, time.Minute, nil, jobs.Lines{}); err != nil {
			t.Errorf("report of the attempt that runs: %v", err)
		}
		if err := s.Report(ctx, c, time.Minute, nil, jobs.Lines{}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("report of the attempt before: %v, want ErrLeaseLost", err)
		}
		if state, err := s.Finish(ctx, second, jobs.Outcome{State: jobs.Succeeded}); err != nil || state != jobs.Succeeded {
			t.Errorf("finish: %v, %v", state, err)
		}
		if state, err := s.Finish(ctx, second, jobs.Outcome{State: jobs.Failed}); err != nil || state != jobs.Succeeded {
			t.Errorf("second finish: %v, %v; want the state on record", state, err)
		}
	})
}

func TestF33AttemptThatOutlivedLostDataOverwritesNoOutcome(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		release(t, s, claim(t, s, "a", time.Minute, jobs.Granted), "again")
		old := claim(t, s, "a", time.Minute, jobs.Granted) // attempt 2
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		// Another worker runs it, as attempt 1 of what Redis now knows, to its end.
		finish(t, s, claim(t, s, "a", time.Minute, jobs.Granted), jobs.Outcome{State: jobs.Succeeded, Result: jobs.Result{Object: "results/a/result.json"}})
		p := jobs.Progress{Done: 1, Total: 2, Message: "Page 1/2 analyzing..."}
		if err := s.Report(ctx, old, time.Minute, &p, jobs.Lines{}); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("report of the attempt from before: %v, want ErrLeaseLost", err)
		}
		wantDocument(t, rdb, "a", "completed", 100, "Processing completed!", "results/a/result.json", "")
	})
}

func TestForeignValuesInJobKeysAreReplaced(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		for i, value := range []string{"", "null", "[]", "{", `{"status":7,"progress":"x"}`, "\x00\xff", `"completed"`} {
			id := jobs.ID(fmt.Sprintf("j%d", i))
			if err := rdb.Set(ctx, "job:"+string(id), value, 0).Err(); err != nil {
				t.Fatal(err)
			}
			c := claim(t, s, id, time.Minute, jobs.Granted)
			if _, err := s.Finish(ctx, c, jobs.Outcome{State: jobs.Failed, Reason: "r"}); err != nil {
				t.Errorf("finish over %q: %v", value, err)
			}
			wantDocument(t, rdb, id, "failed", 0, "Error occurred", "", "r")
		}
		if err := rdb.HSet(ctx, "job:hash", "status", "completed").Err(); err != nil {
			t.Fatal(err)
		}
		claim(t, s, "hash", time.Minute, jobs.Granted)
		wantDocument(t, rdb, "hash", "processing", 0, "Processing started...", "", "")
	})
}

func TestF35K06LogKeepsItsHeadAndItsNewestLines(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		s.Worker = "w%s" // a name that is a format must do no harm
		s.LogCap = 10_000
		ctx := t.Context()
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		for i := range 50 {
			lines := make([]string, 10)
			for k := range lines {
				lines[k] = fmt.Sprintf("line %03d %s", i*10+k, strings.Repeat("x", 90))
			}
			report(t, s, c, time.Minute, nil, jobs.Lines{Before: i * 10, Text: lines})
		}
		var kept []status.LogLine
		for after := "0-0"; ; {
			lines, err := s.Lines(ctx, "a", status.LogQuery{Tail: 7, After: after})
			if err != nil {
				t.Fatal(err)
			}
			if len(lines) == 0 {
				break
			}
			kept = append(kept, lines...)
			after = lines[len(lines)-1].Pos
		}
		bytes, mark := 0, 0
		for i, l := range kept {
			bytes += len(l.Text) + 16 // with its time
			if strings.HasPrefix(l.Text, "…") {
				mark = i
			}
		}
		if bytes > 10_000 || bytes < 9_200 {
			t.Errorf("%d bytes of log kept, want 10 000 at most, and little less than 15/16 of that", bytes)
		}
		// The head is a sixteenth: the line of the start and five of 115 bytes.
		var want []string
		for i := range mark {
			want = append(want, fmt.Sprintf("line %03d", i-1))
		}
		out := 501 - (len(kept) - 1)
		want = append(want, jobs.LeftOut(out))
		for i := range len(kept) - mark - 1 {
			want = append(want, fmt.Sprintf("line %03d", out+mark-1+i))
		}
		var got []string
		for _, l := range kept {
			if strings.HasPrefix(l.Text, "line") {
				l.Text = l.Text[:8]
			}
			got = append(got, l.Text)
		}
		want[0] = "attempt 1 started by w%s"
		if mark != 6 || !slices.Equal(got, want) || got[len(got)-1] != "line 499" {
			t.Errorf("the log is %q, want %q", got, want)
		}
	})
}

func TestF35ListIsNewestFirstInPages(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		ctx := t.Context()
		const n = 57
		for i := range n {
			submit(t, s, jobs.Job{ID: jobs.ID(fmt.Sprintf("j%02d", i)), Kind: "pdf"})
		}
		var got []jobs.ID
		cursor := ""
		for {
			page, next, err := s.List(ctx, status.Query{Limit: 10, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				got = append(got, e.ID)
			}
			if next == "" {
				break
			}
			cursor = next
		}
		if len(got) != n || !slices.IsSortedFunc(got, func(a, b jobs.ID) int { return strings.Compare(string(b), string(a)) }) {
			t.Errorf("listed %d jobs, want %d newest first: %v", len(got), n, got)
		}
		if err := rdb.Del(ctx, "job:j56").Err(); err != nil {
			t.Fatal(err)
		}
		if page, _, err := s.List(ctx, status.Query{Limit: 3, Cursor: ""}); err != nil || len(page) != 2 {
			t.Errorf("a list with an expired job: %v, %v; want the two others", page, err)
		}
		for _, bad := range []string{"x", "1", "/", "1/..", strings.Repeat("9", 40) + "/a"} {
			if _, _, err := s.List(ctx, status.Query{Limit: 10, Cursor: bad}); err == nil || errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("cursor %q: %v, want it refused", bad, err)
			}
		}
	})
}

func TestF35DetailTellsOfTheAttempt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		ctx := t.Context()
		job := jobs.Job{ID: "a", Kind: "pdf", Input: "x.pdf", Submitted: time.Now().Add(-time.Minute)}
		c, err := s.Claim(ctx, job, time.Minute, jobs.Claim{})
		if err != nil {
			t.Fatal(err)
		}
		report(t, s, c, time.Minute, &jobs.Progress{Step: "pages", Done: 1, Total: 2}, jobs.Lines{})
		e, err := s.Get(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		d := e.Detail
		if d.Kind != "pdf" || d.Input != "x.pdf" || d.Worker != "w1" || d.Attempt != 1 || d.Step != "pages" || d.Steps["pages"].IsZero() ||
			time.Since(d.Submitted) < 50*time.Second || time.Since(d.Started) > 10*time.Second || !d.Finished.IsZero() {
			t.Errorf("detail is %+v", d)
		}
		if _, err := s.Get(ctx, "nobody"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("get of an unknown job: %v, want ErrNotExist", err)
		}
	})
}

func TestF16RedisGoneIsUnavailable(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redisdb.Connect(redisdb.Options{Host: m.Host(), Port: 1})
	defer rdb.Close()
	s := status.New(rdb)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"check":  func() error { return s.Check(ctx) },
		"submit": func() error { _, err := s.Submit(ctx, jobs.Job{ID: "a"}); return err },
		"claim":  func() error { _, err := s.Claim(ctx, jobs.Job{ID: "a"}, time.Minute, jobs.Claim{}); return err },
		"report": func() error { return s.Report(ctx, jobs.Claim{Job: "a"}, time.Minute, nil, jobs.Lines{}) },
		"finish": func() error {
			_, err := s.Finish(ctx, jobs.Claim{Job: "a"}, jobs.Outcome{State: jobs.Failed})
			return err
		},
		"release":      func() error { return s.Release(ctx, jobs.Claim{Job: "a"}, "") },
		"cancel":       func() error { _, err := s.Cancel(ctx, "a"); return err },
		"get":          func() error { _, err := s.Get(ctx, "a"); return err },
		"list":         func() error { _, _, err := s.List(ctx, status.Query{Limit: 1, Cursor: ""}); return err },
		"set draining": func() error { _, err := s.SetDraining(ctx, true); return err },
		"end draining": func() error { _, err := s.SetDraining(ctx, false); return err },
		"draining":     func() error { _, err := s.Draining(ctx); return err },
		"ready":        func() error { _, err := s.Ready(ctx); return err },
		"held":         func() error { _, err := s.Held(ctx); return err },
		"register": func() error {
			_, err := s.RegisterQueue(ctx, "q", status.Queue{Topic: "t", Subscription: "s"})
			return err
		},
		"queues": func() error { _, err := s.Queues(ctx); return err },
		"fsck":   func() error { _, err := s.Fsck(ctx, true); return err },
		"log":    func() error { _, err := s.Lines(ctx, "a", status.LogQuery{Tail: 1}); return err },
	} {
		if err := call(); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s without Redis: %v, want ErrUnavailable", name, err)
		}
	}
}

// TestF35KeysShareOneSlot guards clusters: a script may touch one slot only.
func TestF35KeysShareOneSlot(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), DisableIdentity: true})
	defer rdb.Close()
	s := newStore(rdb, "w1")
	ctx := t.Context()
	c := claim(t, s, "a", time.Minute, jobs.Granted)
	if _, err := s.Cancel(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	_ = s.Report(ctx, c, time.Minute, nil, jobs.Lines{Text: []string{"x"}}) // canceled, but it logs
	for _, key := range m.Keys() {
		tag := key
		if i := strings.IndexByte(key, '{'); i >= 0 {
			tag = key[i+1 : strings.IndexByte(key, '}')]
		}
		if tag != "job:a" && !strings.HasPrefix(key, "jobs:") {
			t.Errorf("key %s hashes by %q, want job:a", key, tag)
		}
	}
}

// TestConcurrentClaimsGrantOne races many claims on one job.
func TestF11ConcurrentClaimsGrantOne(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		verdicts := make(chan jobs.Verdict)
		for range 20 {
			go func() {
				c, err := s.Claim(context.WithoutCancel(t.Context()), jobs.Job{ID: "a"}, time.Minute, jobs.Claim{})
				if err != nil {
					t.Error(err)
				}
				verdicts <- c.Verdict
			}()
		}
		granted := 0
		for range 20 {
			if <-verdicts == jobs.Granted {
				granted++
			}
		}
		if granted != 1 {
			t.Errorf("%d of 20 concurrent claims were granted, want 1", granted)
		}
	})
}

// waitUntil asks again and again, for what depends on a server's own clock.
func waitUntil(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within 10 s")
		}
		<-time.After(time.Millisecond)
	}
}
