package status_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/internal/testrun"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/status/redistest"
)

// TestF25OneLooksAtATimeAndAfterALoss: a look is one caller's, and comes before its
// time when Redis was restarted, until somebody has looked for what was lost then.
func TestF25OneLooksAtATimeAndAfterALoss(t *testing.T) {
	t.Parallel()
	srv := redistest.New(t)
	s := status.New(srv.Client())
	look := func(settle time.Duration) (bool, time.Time) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
			mine, lost, err := s.Look(t.Context(), time.Hour, settle)
			if err == nil {
				return mine, lost
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	done := func(lost time.Time, all bool) {
		t.Helper()
		if err := s.LookDone(t.Context(), time.Hour, lost, all); err != nil {
			t.Fatal(err)
		}
	}
	mine, first := look(0)
	if !mine || first.IsZero() {
		t.Fatalf("the first look is due: %v, lost %v", mine, first)
	}
	if mine, _ := look(0); mine {
		t.Error("two look at once")
	}
	done(first, true)
	if mine, lost := look(0); mine || !lost.IsZero() {
		t.Errorf("after a look: mine %v, lost %v", mine, lost)
	}
	srv.Kill()
	srv.Start()
	if mine, lost := look(time.Hour); mine || lost.IsZero() {
		t.Errorf("right after a restart the living write first: mine %v, lost %v", mine, lost)
	}
	srv.Kill()
	srv.Start()
	mine, lost := look(0)
	if !mine || !lost.After(first) {
		t.Errorf("after a restart: mine %v, lost %v", mine, lost)
	}
	due := func() string { return srv.Client().HGet(t.Context(), "fleet:repair", "next").Val() }
	before := due()
	done(first, true) // one that began before the loss
	if due() != before {
		t.Error("a look for an earlier loss has moved the next one")
	}
	if err := s.LookDone(t.Context(), 2*time.Hour, lost, false); err != nil { // it did not get through
		t.Fatal(err)
	}
	if due() == before {
		t.Error("a look that did not get through has not moved the next one")
	}
	if _, again := look(0); !again.Equal(lost) {
		t.Errorf("a loss that was not looked for is %v, want %v", again, lost)
	}
	done(lost, true)
	if _, again := look(0); !again.IsZero() {
		t.Errorf("a loss that was looked for is %v still", again)
	}
}

func TestF25StraysAreWhatNobodyRuns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		for _, id := range []jobs.ID{"waits", "runs", "ended", "silent"} {
			submit(t, s, jobs.Job{ID: id, Kind: "mock"})
		}
		claim(t, s, "runs", time.Minute, jobs.Granted)
		claim(t, s, "silent", time.Millisecond, jobs.Granted)
		finish(t, s, claim(t, s, "ended", time.Minute, jobs.Granted), jobs.Outcome{State: jobs.Failed, Reason: "r"})
		rdb.Set(t.Context(), "job:page", `{"status":"queued","updated_at":"2026-01-02T03:04:05Z"}`, 0)
		rdb.Set(t.Context(), "job:junk", "junk", 0)
		submit(t, s, jobs.Job{ID: "stateless", Kind: "mock"}) // its worker ended before it was in the index of its state
		rdb.ZRem(t.Context(), "jobs:index:queued", "stateless")
		if err := s.MarkSent(t.Context(), "waits"); err != nil {
			t.Fatal(err)
		}
		strays := func(all bool) (ids []string) {
			t.Helper()
			err := s.Strays(t.Context(), all, func(page []status.Stray) error {
				for _, x := range page {
					ids = append(ids, string(x.ID))
					if x.ID == "waits" && (x.Detail.Resent != 1 || x.Detail.Sent.IsZero() || x.Detail.Kind != "mock") {
						t.Errorf("%+v does not say that it was sent again", x)
					}
					if x.ID == "page" && x.Since.Unix() != 1767323045 {
						t.Errorf("page has shown life at %v", x.Since)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(ids)
			return slices.Compact(ids)
		}
		waitUntil(t, func() bool { return slices.Equal(strays(false), []string{"silent", "waits"}) })
		if got := strays(true); !slices.Equal(got, []string{"page", "silent", "stateless", "waits"}) {
			t.Errorf("strays, with those in no index: %v", got)
		}
		if err := s.EnterAgain(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
		if got := strays(false); !slices.Equal(got, []string{"silent", "stateless", "waits"}) {
			t.Errorf("strays once those in no index were entered: %v", got)
		}
	})
}

// TestF25RunningJobThatIsListedAsEnded: Redis has lost that the job has ended, but its worker
// entered it as ended after that. Its claim is not over when somebody looks for what was lost.
func TestF25RunningJobThatIsListedAsEnded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		submit(t, s, jobs.Job{ID: "a", Kind: "mock"})
		claim(t, s, "a", time.Hour, jobs.Granted)
		rdb.ZRem(t.Context(), "jobs:index:running", "a")
		rdb.ZAdd(t.Context(), "jobs:index:succeeded", redis.Z{Score: 1, Member: "a"})
		if err := s.EnterAgain(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
		for state, want := range map[string]int64{"running": 1, "succeeded": 0} {
			if n := rdb.ZCard(t.Context(), "jobs:index:"+state).Val(); n != want {
				t.Errorf("%d jobs are listed as %s, want %d", n, state, want)
			}
		}
	})
}

// TestF25StraysThatMoveHideNoOther: what a repair does to a job takes it out of the
// index that is being read.
func TestF25StraysThatMoveHideNoOther(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t).Client() // a long pipeline takes miniredis too long
	s := newStore(rdb, "w1")
	const n = 2500
	_, err := rdb.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for i := range n {
			id := fmt.Sprintf("job-%d", i)
			pipe.Set(t.Context(), "job:"+id, `{"status":"queued"}`, 0)
			pipe.ZAdd(t.Context(), "jobs:index:queued", redis.Z{Score: float64(i), Member: id})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = s.Strays(t.Context(), false, func(page []status.Stray) error {
		for _, x := range page {
			seen++
			rdb.ZRem(t.Context(), "jobs:index:queued", string(x.ID))
		}
		return nil
	})
	if err != nil || seen != n {
		t.Errorf("%d of %d jobs are seen, %v", seen, n, err)
	}
}

// TestF25AnyNodeOfAClusterMayHaveLostSomething: only one of them has the key that says
// when to look.
func TestF25AnyNodeOfAClusterMayHaveLostSomething(t *testing.T) {
	t.Parallel()
	testrun.Long(t, "it starts a cluster")
	var nodes []*redistest.Server
	for i, slots := range [][2]int{{0, 8191}, {8192, 16383}} {
		srv := redistest.New(t, "--cluster-enabled", "yes")
		rdb := srv.Client()
		if err := rdb.ClusterAddSlotsRange(t.Context(), slots[0], slots[1]).Err(); err != nil {
			t.Fatal(err)
		}
		rdb.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		nodes = append(nodes, srv)
	}
	if err := nodes[0].Client().ClusterMeet(t.Context(), nodes[1].Host, fmt.Sprint(nodes[1].Port)).Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	s, last := status.New(rdb), nodes[1].Client()
	// It takes a moment to open, and to notice who was away.
	look := func(is func(lost time.Time) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
			_, lost, err := s.Look(t.Context(), time.Hour, time.Hour)
			info := last.ClusterInfo(t.Context()).Val()
			if err == nil && is(lost) && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:2") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("a loss at %v, %v is on record after a minute\n%s", lost, err, info)
			}
		}
	}
	for _, node := range nodes {
		look(func(lost time.Time) bool {
			_ = s.LookDone(t.Context(), time.Hour, lost, true)
			return lost.IsZero()
		})
		node.Kill()
		node.Start()
		look(func(lost time.Time) bool { return !lost.IsZero() })
	}
}
