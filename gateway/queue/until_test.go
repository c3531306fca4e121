package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestD02ListBeginsAtAMoment(t *testing.T) {
	t.Parallel()
	onBoth(t, func(r *rig) {
		began := r.clock.Now()
		for _, id := range []jobs.ID{"a", "b", "c", "d"} {
			r.submit(id)
			r.clock.pass(time.Second)
		}
		for after, want := range map[time.Duration]string{
			0: "", time.Microsecond: "a", time.Millisecond: "a", time.Second: "a", time.Second + 1: "b a", time.Hour: "d c b a", -time.Hour: "",
		} {
			for _, limit := range []int{1, 100} {
				var got []string
				for cursor := ""; ; {
					page, next, err := r.List(r.ctx(), queue.ListQuery{Limit: limit, Cursor: cursor, Until: began.Add(after)})
					if err != nil {
						t.Fatal(err)
					}
					for _, j := range page {
						got = append(got, string(j.ID))
					}
					if cursor = next; next == "" {
						break
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("until %v after the first, %d a page: %v, want %s", after, limit, got, want)
				}
			}
		}
		if page, _, err := r.List(r.ctx(), queue.ListQuery{Limit: 1, Until: time.Unix(-1e9, 0)}); err != nil || len(page) > 0 {
			t.Errorf("before 1970: %v, %v", page, err)
		}
	})
}
