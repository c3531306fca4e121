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

// TestK21OutcomeBringsWhatNoReportHasBrought ends jobs with a short log and a long one. The answer to a report with two
// lines was lost, so the outcome brings the second of them again.
func TestK21OutcomeBringsWhatNoReportHasBrought(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *status.Store, _ *redis.Client) {
		for id, n := range map[jobs.ID]int{"short": 2, "long": 100} {
			c := claim(t, s, id, time.Minute, jobs.Granted)
			var lines []string
			for i := range n {
				lines = append(lines, fmt.Sprintf("line %d", i))
			}
			report(t, s, c, time.Minute, &jobs.Progress{Step: "fetch"}, jobs.Lines{Text: lines})
			last := jobs.Lines{Before: n - 1, Text: []string{lines[n-1], "and", "the end"}}
			for range 2 { // the answer to the first is lost as well
				got, err := s.FinishLast(t.Context(), c, jobs.Outcome{State: jobs.Failed, Reason: "no"}, &jobs.Progress{Done: 1, Total: 4, Step: "run"}, last)
				if err != nil || got != jobs.Failed {
					t.Errorf("%s: FinishLast = %v, %v", id, got, err)
				}
			}
			want := append([]string{"attempt 1 started by w1"}, append(lines, "and", "the end", "attempt 1 failed: no")...)
			if got := texts(t, s, id); !slices.Equal(got, want) {
				t.Errorf("%s: the log has %q, want %q", id, got, want)
			}
			e, err := s.Get(t.Context(), id)
			if steps := e.Detail.Steps; err != nil || e.Progress != 25 || steps["fetch"].IsZero() || steps["run"].Before(steps["fetch"]) {
				t.Errorf("%s: progress %d, want 25; steps %v; %v", id, e.Progress, steps, err)
			}
		}
	})
}
