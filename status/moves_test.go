package status_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// meddler does something before or after pipelines that have a command.
type meddler struct {
	trips
	command       string
	before, after func() error
}

func (m *meddler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		has := slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == m.command })
		if has && m.before != nil {
			if err := m.before(); err != nil {
				for _, c := range cmds {
					c.SetErr(err)
				}
				return err
			}
		}
		err := next(ctx, cmds)
		if has && m.after != nil {
			err = errors.Join(err, m.after())
		}
		return err
	}
}

func TestJ07AJobThatIsHeldIsFoundThoughAWriteWasLost(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	job := jobs.Job{ID: "a", Kind: "mock"}
	submit(t, s, job)
	lost := 0
	rdb.AddHook(&meddler{command: "zrem", before: func() error {
		if lost++; lost == 1 {
			return errors.New("connection reset")
		}
		return nil
	}})
	c, err := s.Claim(t.Context(), job, time.Minute, jobs.Claim{})
	if !errors.Is(err, jobs.ErrUnavailable) || c.Token == "" {
		t.Fatalf("claim whose place in the index was lost: %+v, %v; want ErrUnavailable and its token", c, err)
	}
	c, err = s.Claim(t.Context(), job, time.Minute, c)
	if err != nil || c.Verdict != jobs.Granted || c.Attempt != 1 || c.Crashes != 0 {
		t.Fatalf("asked again: %+v, %v", c, err)
	}
	if held, err := s.Held(t.Context()); err != nil || len(held) != 1 {
		t.Errorf("held: %v, %v; want the job", held, err)
	}
	wantList(t, s, jobs.Running, "a")
}

// TestJ07MendingUndoesNoMove ends a job between the look at it and the move
// that was decided on by that look.
func TestJ07MendingUndoesNoMove(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client()
	s := newStore(rdb, "w1")
	c := claim(t, s, "a", time.Minute, jobs.Granted)
	rdb.ZAdd(t.Context(), "jobs:index:queued", redis.Z{Score: float64(time.Now().UnixMicro()), Member: "a"})
	reader := redis.NewClient(rdb.Options())
	defer reader.Close()
	looks := 0
	reader.AddHook(&meddler{command: "getrange", after: func() error {
		if looks++; looks != 2 { // the first is that of the list, the second that of repair
			return nil
		}
		_, err := s.Finish(t.Context(), c, jobs.Outcome{State: jobs.Succeeded})
		return err
	}})
	if _, _, err := newStore(reader, "").List(t.Context(), status.Query{State: jobs.Queued, Limit: 5}); err != nil || looks < 3 {
		t.Fatalf("%d looks, %v", looks, err)
	}
	for _, state := range []string{"queued", "running", "succeeded"} {
		want := []string{}
		if state == "succeeded" {
			want = []string{"a"}
		}
		if got := members(t, rdb, "jobs:index:"+state); !slices.Equal(got, want) {
			t.Errorf("index of %s has %v, want %v", state, got, want)
		}
	}
}

// bubble runs a test in virtual time against the embedded server.
func bubble(t *testing.T, test func(t *testing.T, s *status.Store, rdb *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() }})
		defer rdb.Close()
		test(t, newStore(rdb, "w1"), rdb)
	})
}

func TestFsckGivesAMoveASecond(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		submit(t, s, jobs.Job{ID: "a"})
		// A worker has begun it, and its move comes half a second after fsck looks.
		rdb.ZRem(t.Context(), "jobs:index:queued", "a")
		var moved *time.Timer
		rdb.AddHook(&meddler{command: "getrange", after: func() error {
			if moved == nil {
				moved = time.AfterFunc(time.Second/2, func() { submit(t, s, jobs.Job{ID: "a"}) })
			}
			return nil
		}})
		if r := fsck(t, s, false); len(r.Findings) != 0 || moved == nil {
			t.Errorf("findings of a job that moves: %+v", r)
		}
	})
}

func TestJ07AJobThatNothingDatesIsMendedAsNew(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		rdb.Set(t.Context(), "job:a", `{"status":"processing"}`, time.Hour)
		for _, index := range []string{"jobs:index", "jobs:index:queued"} {
			rdb.ZAdd(t.Context(), index, redis.Z{Score: float64(time.Now().UnixMicro()), Member: "a"})
		}
		wantList(t, s, jobs.Queued)
		wantList(t, s, jobs.Running, "a")
		if r := fsck(t, s, false); len(r.Findings) != 0 {
			t.Errorf("findings: %+v", r)
		}
	})
}

// TestF30ListsAndWorkersAgreeOnWhatIsNoStatus has, for each value, whether it counts.
func TestF30ListsAndWorkersAgreeOnWhatIsNoStatus(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it takes much CPU")
	long := func(n int) string {
		const head, tail = `{"status":"completed","message":"`, `"}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	tests := []struct {
		name, value string
		counts      bool
	}{
		{"an object with a status word", `{"status":"completed"}`, true},
		{"other fields that are wrong", `{"status":"completed","progress":"x","message":[1]}`, true},
		{"32 KiB", long(32 << 10), true},
		{"more than 32 KiB", long(32<<10 + 1), false},
		{"a status that is a number", `{"status":7}`, false},
		{"a status that is true", `{"status":true}`, false},
		{"a status that is an object", `{"status":{"status":"completed"}}`, false},
		{"a status that is null", `{"status":null}`, false},
		{"an empty status", `{"status":""}`, false},
		{"another case", `{"Status":"completed"}`, false},
		{"an array", `["completed"]`, false},
		{"a string", `"completed"`, false},
		{"null", "null", false},
		{"no JSON", "completed", false},
		{"half of it", `{"status":"completed"`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
				rdb.Set(t.Context(), "job:a", tt.value, time.Hour)
				e, err := s.Get(t.Context(), "a")
				if counts := e.State() != 0; err != nil || counts != tt.counts {
					t.Errorf("readers see it as %v, %v; it counts: %v", e.State(), err, tt.counts)
				}
				_, err = s.Cancel(t.Context(), "a")
				if counts := errors.Is(err, status.ErrEnded); counts != tt.counts {
					t.Errorf("cancel: %v; it counts: %v", err, tt.counts)
				}
				want := jobs.Granted
				if tt.counts {
					want = jobs.Ended
				}
				claim(t, s, "a", time.Minute, want)
			})
		})
	}
}

// TestJ07JobsStayInTheIndexForAWeek has when a job counts as created, by when its
// sender says that it was submitted, and what is dropped.
func TestJ07JobsStayInTheIndexForAWeek(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	tests := []struct {
		name string
		ago  time.Duration
		kept bool
	}{
		{"just now", 0, true},
		{"almost 6 days ago", 6*day - time.Second, true},
		{"6 days ago", 6 * day, false},
		{"almost 7 days ago", 7*day - time.Second, false},
		{"in the future", -time.Second, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
				now := time.Now()
				job := jobs.Job{ID: "a", Submitted: now.Add(-tt.ago)}
				want := now
				if tt.kept {
					want = job.Submitted
				}
				if c, err := s.Claim(t.Context(), job, 48*time.Hour, jobs.Claim{}); err != nil || c.Verdict != jobs.Granted {
					t.Fatal(c, err)
				}
				if e, err := s.Get(t.Context(), "a"); err != nil || e.Created.UnixMilli() != want.UnixMilli() {
					t.Errorf("created at %v, %v; want %v", e.Created, err, want)
				}
				time.Sleep(day - 2*time.Second) // as long as a job may be silent
				claim(t, s, "other", time.Minute, jobs.Granted)
				if held, err := s.Held(t.Context()); err != nil || len(held) != 2 {
					t.Errorf("a day later %v are held, %v; want both", held, err)
				}
			})
		})
	}
	t.Run("older entries are dropped", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
			old := func(state string) {
				at := redis.Z{Score: float64(time.Now().Add(-7*day - time.Second).UnixMicro()), Member: "old"}
				rdb.ZAdd(t.Context(), "jobs:index", at)
				rdb.ZAdd(t.Context(), "jobs:index:"+state, at)
			}
			want := func(step, state string) {
				t.Helper()
				for _, index := range []string{"jobs:index", "jobs:index:" + state} {
					if got := members(t, rdb, index); !slices.Equal(got, []string{"a"}) {
						t.Errorf("%s leaves %v in %s, want a", step, got, index)
					}
				}
			}
			old("queued")
			submit(t, s, jobs.Job{ID: "a"})
			want("submit", "queued")
			time.Sleep(time.Minute) // each process does it once a minute
			old("running")
			c := claim(t, s, "a", time.Hour, jobs.Granted)
			want("claim", "running")
			time.Sleep(time.Minute)
			old("succeeded")
			finish(t, s, c, jobs.Outcome{State: jobs.Succeeded})
			if got := members(t, rdb, "jobs:index:succeeded"); !slices.Equal(got, []string{"a"}) {
				t.Errorf("finish leaves %v", got)
			}
		})
	})
}

func TestJ07PagesLookFurtherWhereJobsAreForgotten(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		now := time.Now()
		var entries []redis.Z
		for i := range 900 {
			entries = append(entries, redis.Z{Score: float64(now.Add(-25*time.Hour - time.Duration(i)*time.Second).UnixMicro()), Member: fmt.Sprintf("gone%03d", i)})
		}
		rdb.ZAdd(t.Context(), "jobs:index", entries...)
		submit(t, s, jobs.Job{ID: "old", Submitted: now.Add(-50 * time.Hour)})
		submit(t, s, jobs.Job{ID: "older", Submitted: now.Add(-51 * time.Hour)})
		page, next, err := s.List(t.Context(), status.Query{Limit: 1})
		if err != nil || len(page) != 1 || page[0].ID != "old" || next == "" {
			t.Fatalf("first page of a fleet quiet for a day: %v, cursor %q, %v; want the newest job that is known", page, next, err)
		}
		page, next, err = s.List(t.Context(), status.Query{Limit: 1, Cursor: next})
		if err != nil || len(page) != 1 || page[0].ID != "older" || next != "" {
			t.Errorf("second page: %v, cursor %q, %v", page, next, err)
		}
	})
}

func TestJ07TimeOfAJobSurvivesTheLossOfAllData(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		for _, how := range []string{"report", "finish"} {
			c := claim(t, s, jobs.ID(how), time.Minute, jobs.Granted)
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if how == "report" {
				report(t, s, c, time.Minute, &jobs.Progress{Done: 1, Total: 2}, jobs.Lines{})
			}
			created := rdb.HGet(t.Context(), "{job:"+how+"}:detail", "created_at").Val()
			finish(t, s, c, jobs.Outcome{State: jobs.Succeeded})
			wantList(t, s, jobs.Succeeded, how)
			after := rdb.HGet(t.Context(), "{job:"+how+"}:detail", "created_at").Val()
			if after == "" || how == "report" && after != created {
				t.Errorf("%s: created at %q, and then at %q", how, created, after)
			}
			if r := fsck(t, s, false); len(r.Findings) != 0 {
				t.Errorf("%s: findings %+v", how, r)
			}
		}
	})
}

func TestF36AnEarlierFailureLeavesNoCode(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		finish(t, s, claim(t, s, "a", time.Minute, jobs.Granted), jobs.Outcome{State: jobs.Failed, Reason: "r", Code: "PDF_BROKEN"})
		rdb.Del(t.Context(), "job:a") // somebody wants it run again
		finish(t, s, claim(t, s, "a", time.Minute, jobs.Granted), jobs.Outcome{State: jobs.Failed, Reason: "another"})
		if e, err := s.Get(t.Context(), "a"); err != nil || e.Detail.Code != "" {
			t.Errorf("code %q, %v; want none", e.Detail.Code, err)
		}
	})
}
