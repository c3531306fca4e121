package status_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

// changes reads until nothing comes any more.
func changes(t *testing.T, s *status.Store, after string) (ids []string, next string) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		more, next, lost, err := s.Changes(ctx, after)
		cancel()
		if err != nil || lost || len(more) > status.MaxChanges {
			t.Fatalf("%d changes after %s, lost %v, %v", len(more), after, lost, err)
		}
		if ids, after = append(ids, more...), next; len(more) == 0 {
			return ids, next
		}
	}
}

func TestD09ChangesTellOfEveryMove(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		ids, start, lost, err := s.Changes(t.Context(), "")
		if err != nil || lost || len(ids) != 0 || start == "" {
			t.Fatalf("the present is %v, %q, %v, %v", ids, start, lost, err)
		}
		submit(t, s, jobs.Job{ID: "a", Kind: "pdf"})
		c := begin(t, s, jobs.Job{ID: "a", Kind: "pdf"})
		claim(t, s, "a", time.Minute, jobs.Busy) // no change
		report(t, s, c, time.Minute, &jobs.Progress{Done: 1, Total: 2}, jobs.Lines{})
		release(t, s, c, "again")
		finish(t, s, begin(t, s, jobs.Job{ID: "a", Kind: "pdf"}), jobs.Outcome{State: jobs.Failed, Reason: "r"})
		got, middle := changes(t, s, start)
		if !slices.Equal(got, []string{"a", "a", "a", "a", "a"}) {
			t.Errorf("changes are %v, want submit, claim, release, claim and finish of a", got)
		}
		if _, err := s.Requeue(t.Context(), jobs.Job{ID: "a", Kind: "pdf"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cancel(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got, _ := changes(t, s, middle); !slices.Equal(got, []string{"a", "a"}) {
			t.Errorf("then changes are %v, want requeue and cancel", got)
		}
	})
}

func TestD09ChangesComeWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		_, at, _, err := s.Changes(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			var waiting sync.WaitGroup
			id := fmt.Sprintf("j%d", i)
			waiting.Go(func() {
				ids, next, lost, err := s.Changes(t.Context(), at)
				if err != nil || lost || !slices.Equal(ids, []string{id}) {
					t.Errorf("got %v, %v, %v; want %s", ids, lost, err, id)
				}
				at = next
			})
			submit(t, s, jobs.Job{ID: jobs.ID(id)})
			waiting.Wait()
		}
	})
}

func TestD09ChangesThatAreNoLongerKeptAreLost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		submit(t, s, jobs.Job{ID: "a"})
		_, at, _, err := s.Changes(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		lostAt := func(at string) string {
			t.Helper()
			ids, next, lost, err := s.Changes(t.Context(), at)
			if err != nil || !lost || len(ids) != 0 {
				t.Errorf("after %q: %v, lost %v, %v; want lost", at, ids, lost, err)
			}
			return next
		}
		_, err = rdb.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for i := range 10_300 {
				pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: "jobs:feed", MaxLen: 10_000, Approx: true, Values: []any{"jobs", fmt.Sprintf("j%d", i)}})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		next := lostAt(at)
		submit(t, s, jobs.Job{ID: "b"})
		if ids, _ := changes(t, s, next); !slices.Equal(ids, []string{"b"}) {
			t.Errorf("after the loss: %v, want b", ids)
		}
		lostAt("nonsense")
		rdb.Del(t.Context(), "jobs:feed") // with all the data
		if next := lostAt(next); next != "0-0" {
			t.Errorf("the present of an empty feed is %q", next)
		}
		rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "jobs:feed", Values: []any{"jobs", strings.Repeat("x ", 1000)}}) // by another program
		if ids, _, lost, err := s.Changes(t.Context(), "0-0"); len(ids) != status.MaxChanges || lost || err != nil {
			t.Errorf("%d ids, lost %v, %v", len(ids), lost, err)
		}
	})
}

func TestD09ManyChangesComeInOneEntry(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		_, at, _, err := s.Changes(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 400 {
			all.Go(func() {
				if _, err := s.Claim(t.Context(), jobs.Job{ID: jobs.ID(fmt.Sprintf("j%d", i)), Kind: "pdf"}, time.Minute, jobs.Claim{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		ids, _ := changes(t, s, at)
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != 400 {
			t.Errorf("%d jobs have changed, want 400", n)
		}
		if n := rdb.XLen(t.Context(), "jobs:feed").Val(); n > 200 {
			t.Errorf("400 changes at once took %d entries", n)
		}
	})
}

func TestD09WaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		submit(t, s, jobs.Job{ID: "a"})
		_, at, _, err := s.Changes(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if ids, next, lost, err := s.Changes(ctx, at); len(ids) > 0 || next != at || lost || err != nil {
			t.Errorf("%v, %q, %v, %v; want none and %q", ids, next, lost, err, at)
		}
	})
}
