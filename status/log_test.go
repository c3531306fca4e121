package status_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// texts returns the texts of a job's log.
func texts(t *testing.T, s *status.Store, id jobs.ID) []string {
	t.Helper()
	lines, err := s.Lines(t.Context(), id, status.LogQuery{Tail: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		got = append(got, l.Text)
	}
	return got
}

// TestF26RedisBytesAJob runs jobs as the fleet does, each with a log of 20 lines,
// and asks a real server how much memory they take.
func TestF26RedisBytesAJob(t *testing.T) {
	t.Parallel()
	testrun.Once(t, "it is about the memory of Redis")
	testrun.Long(t, "it takes much CPU")
	for name, document := range map[string]string{
		"a short name": "document.pdf",
		"a long name":  strings.Repeat("quarterly-report-", 5) + "final.pdf",
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redistest.New(t).Client()
			s := newStore(rdb, "batchfleet-worker-7c9fd8b5d4-x2x7k")
			const n = 1500
			endWithLog(t, s, rdb, document) // scripts and connections cost once
			before := usedMemory(t, rdb)
			for range n {
				endWithLog(t, s, rdb, document)
			}
			// The feed has a bound of its own.
			feed := rdb.MemoryUsage(t.Context(), "jobs:feed", 0).Val()
			each := (usedMemory(t, rdb) - before - int(feed)) / n
			t.Logf("%d bytes a job", each)
			if most := 1536 + len(document) - len("document.pdf"); each > most {
				t.Errorf("a job with a log of 20 lines takes %d bytes of Redis, want at most %d", each, most)
			}
		})
	}
}

func usedMemory(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	n, err := strconv.Atoi(rdb.InfoMap(t.Context(), "memory").Val()["Memory"]["used_memory"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// endWithLog takes a job with an id as submit makes them from its submission to its
// end. It writes 18 lines of log itself, with 3 to 5 s between them, as the pages
// of kind mock take; the first and the last are of the attempt.
func endWithLog(t *testing.T, s *status.Store, rdb *redis.Client, document string) {
	t.Helper()
	ctx := t.Context()
	id := jobs.ID(ulid.Make().String())
	job := jobs.Job{ID: id, Kind: "pdf", Input: "uploads/" + string(id) + "/" + document, Submitted: time.Now()}
	submit(t, s, job)
	c, err := s.Claim(ctx, job, time.Minute, jobs.Claim{})
	if err != nil {
		t.Fatal(err)
	}
	at, bytes, stored := time.Now().Add(-2*time.Minute), 0, []any{""}
	for page := range 19 {
		text := fmt.Sprintf("Page %d/18 analyzing...", page)
		if page == 0 {
			text = "attempt 1 started by " + s.Worker
		}
		at = at.Add(3*time.Second + rand.N(2*time.Second))
		bytes += len(text)
		stored = append(stored, fmt.Sprintf("%d %s", at.UnixMilli(), text))
	}
	stored[0] = fmt.Sprintf("0 %d", bytes)
	log := fmt.Sprintf("{job:%s}:log", id)
	rdb.Del(ctx, log)
	if err := rdb.RPush(ctx, log, stored...).Err(); err != nil {
		t.Fatal(err)
	}
	for i, step := range []string{"fetch", "pages", "store"} {
		p := jobs.Progress{Done: 6*i + 6, Total: 18, Step: step, Message: "Page 18/18 analyzing..."}
		report(t, s, c, time.Minute, &p, jobs.Lines{})
	}
	result := jobs.Result{Object: "results/" + string(id) + "/result.json", Pages: 18}
	finish(t, s, c, jobs.Outcome{State: jobs.Succeeded, Result: result})
}

func TestF26AnEndedJobKeepsItsWholeLog(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	endWithLog(t, s, rdb, "x.pdf")
	page, _, err := s.List(t.Context(), status.Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	got := texts(t, s, page[0].ID)
	if len(got) != 20 || got[0] != "attempt 1 started by w1" || got[18] != "Page 18/18 analyzing..." || got[19] != "attempt 1 completed" {
		t.Errorf("the log is %q, want 20 lines", got)
	}
}

func TestF26LinesSentTwiceAreInTheLogOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		log := func(before int, lines ...string) {
			t.Helper()
			report(t, s, c, time.Minute, nil, jobs.Lines{Before: before, Text: lines})
		}
		log(0, "one", "two")
		log(0, "one", "two")          // the answer was lost
		log(0, "one", "two", "three") // and more has come meanwhile
		log(2, "three", "four")
		log(1, "two")
		if got, want := texts(t, s, "a")[1:], []string{"one", "two", "three", "four"}; !slices.Equal(got, want) {
			t.Errorf("the log has %q, want %q", got, want)
		}
		release(t, s, c, "again")
		c = claim(t, s, "a", time.Minute, jobs.Granted)
		log(0, "one") // of another attempt
		if got := texts(t, s, "a"); got[len(got)-1] != "one" {
			t.Errorf("the log of the second attempt ends with %q", got)
		}
	})
}

// TestF26PackedLogReadsAsBefore compares what is read of logs before and after
// they are packed, in all ways there are to read.
func TestF26PackedLogReadsAsBefore(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		words := []string{"", " ", "Page 1/9 analyzing...", "Page 2/9 analyzing...", "a", "aa", "aaa", "日本語", "日本", "1,2,3,4:", "0 5;", "two\nlines", "\x00\xff"}
		for round := range 10 {
			id := jobs.ID(fmt.Sprintf("a%d", round))
			c := claim(t, s, id, time.Minute, jobs.Granted)
			stored, bytes, ms := []any{""}, 0, time.Now().Add(-time.Hour).UnixMilli()
			for range rand.N(40) {
				text := words[rand.N(len(words))] + words[rand.N(len(words))]
				ms += rand.N(int64(3)) * rand.N(int64(1000))
				stored, bytes = append(stored, fmt.Sprintf("%d %s", ms, text)), bytes+len(text)
			}
			stored[0] = fmt.Sprintf("%d %d", rand.N(3)*7, bytes)
			key := fmt.Sprintf("{job:%s}:log", id)
			rdb.Del(t.Context(), key)
			if err := rdb.RPush(t.Context(), key, stored...).Err(); err != nil {
				t.Fatal(err)
			}
			before := readings(t, s, id)
			finish(t, s, c, jobs.Outcome{State: jobs.Succeeded})
			if kind := rdb.Type(t.Context(), key).Val(); kind != "string" {
				t.Fatalf("the log is a %s, want it packed into a string", kind)
			}
			after := readings(t, s, id)
			for how, want := range before {
				if got := after[how]; !slices.Equal(got, want) {
					t.Fatalf("%s of %q: %+v, want %+v", how, stored, got, want)
				}
			}
		}
	})
}

// readings reads a log in many ways, but for its last line.
func readings(t *testing.T, s *status.Store, id jobs.ID) map[string][]status.LogLine {
	t.Helper()
	all, err := s.Lines(t.Context(), id, status.LogQuery{Tail: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all); n > 0 && all[n-1].Text == "attempt 1 completed" {
		all = all[:n-1]
	}
	got := map[string][]status.LogLine{"all": all}
	for i, l := range all {
		lines, err := s.Lines(t.Context(), id, status.LogQuery{Tail: 1, After: l.Pos})
		if err != nil {
			t.Fatal(err)
		}
		if i+1 < len(all) {
			got["after "+l.Pos] = lines
		}
		if lines, err = s.Lines(t.Context(), id, status.LogQuery{Tail: 3, After: "0", Since: l.Time}); err != nil {
			t.Fatal(err)
		}
		if i+3 <= len(all) {
			got["since "+l.Pos] = lines
		}
		if got["before "+l.Pos], err = s.LinesBefore(t.Context(), id, l.Pos, 2); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestF35LogOfAJobQueuedAgainGoesOn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		finish(t, s, c, jobs.Outcome{State: jobs.Failed, Reason: "no PDF"})
		if _, err := s.Requeue(t.Context(), jobs.Job{ID: "a", Kind: "mock"}); err != nil {
			t.Fatal(err)
		}
		want := []string{"attempt 1 started by w1", "attempt 1 failed: no PDF", "queued again after a failure"}
		if got := texts(t, s, "a"); !slices.Equal(got, want) {
			t.Errorf("the log is %q, want %q", got, want)
		}
	})
}

// TestF35LogThatRedisHasLostIsFollowed shows that a follower whose place is of a log
// that is gone sees the lines of the new one.
func TestF35LogThatRedisHasLostIsFollowed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		report(t, s, c, time.Minute, nil, jobs.Lines{Text: []string{"one", "two"}})
		all, err := s.Lines(t.Context(), "a", status.LogQuery{Tail: 10})
		if err != nil {
			t.Fatal(err)
		}
		rdb.Del(t.Context(), "{job:a}:log")
		time.Sleep(2 * time.Millisecond) // until the server's clock shows a later time
		report(t, s, c, time.Minute, nil, jobs.Lines{Before: 2, Text: []string{"three"}})
		lines, err := s.Lines(t.Context(), "a", status.LogQuery{Tail: 10, After: all[2].Pos})
		if err != nil || len(lines) != 1 || lines[0].Text != "three" {
			t.Errorf("after the last line of the old log: %+v, %v; want three", lines, err)
		}
	})
}

func TestDetailKeepsLongNamesInPieces(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		for _, n := range []int{200, 0, 1, 63, 64, 65, 127, 128, 129, 1024} {
			name := strings.Repeat("x", n)
			rdb.Del(t.Context(), "job:a")
			submit(t, s, jobs.Job{ID: "a", Input: name})
			if e, err := s.Get(t.Context(), "a"); err != nil || e.Detail.Input != name {
				t.Errorf("a name of %d bytes is read as %q, %v", n, e.Detail.Input, err)
			}
		}
	})
}

func TestTextOfJobsIsMadeVisible(t *testing.T) {
	t.Parallel()
	const evil, want = "\x1b[2J\x00\u009b\u202e\u2066ok", `\x1b[2J\x00\u009b\u202e\u2066ok`
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		c := claim(t, s, "a", time.Minute, jobs.Granted)
		report(t, s, c, time.Minute, &jobs.Progress{Message: evil}, jobs.Lines{Text: []string{evil}})
		if got := document(t, rdb, "a")["message"]; got != want {
			t.Errorf("the message is %q, want %q", got, want)
		}
		release(t, s, c, evil)
		c = claim(t, s, "a", time.Minute, jobs.Granted)
		finish(t, s, c, jobs.Outcome{State: jobs.Failed, Reason: evil})
		if got := document(t, rdb, "a")["error_msg"]; got != want {
			t.Errorf("the cause is %q, want %q", got, want)
		}
		log := []string{"attempt 1 started by w1", want, "attempt 1 handed back: " + want, "attempt 2 started by w1", "attempt 2 failed: " + want}
		if got := texts(t, s, "a"); !slices.Equal(got, log) {
			t.Errorf("the log is %q, want %q", got, log)
		}
	})
}
