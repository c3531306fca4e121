package status_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/status"
)

func TestD31ListBeginsAtATimeAtNoCost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, rdb *redis.Client) {
		base := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		var want []string
		for i := range 20 {
			id := fmt.Sprintf("j%02d", i)
			submit(t, s, jobs.Job{ID: jobs.ID(id), Kind: "pdf", Submitted: base.Add(time.Duration(i) * time.Second)})
			if i < 12 {
				want = append(want, id)
			}
		}
		slices.Reverse(want)
		until := base.Add(12 * time.Second) // exclusive
		for _, q := range []status.Query{{Limit: 50}, {Limit: 5}, {Limit: 5, State: jobs.Queued}, {Limit: 5, Kind: "pdf"}} {
			q.Until = until
			if got := list(t, s, q); !slices.Equal(got, want) {
				t.Errorf("%+v: %v, want %v", q, got, want)
			}
		}
		for at, n := range map[time.Time]int{{}: 20, base: 0, time.UnixMilli(-5): 0, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC): 20} {
			if got := list(t, s, status.Query{Limit: 50, Until: at}); len(got) != n {
				t.Errorf("until %v: %d jobs, want %d", at, len(got), n)
			}
		}
		count := &trips{}
		rdb.AddHook(count)
		if _, _, err := s.List(t.Context(), status.Query{Limit: 5, Until: until}); err != nil || count.n.Load() != 2 {
			t.Errorf("%d round trips, %v; want 2", count.n.Load(), err)
		}
	})
}
