package jobapi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestD01TallyCountsHours(t *testing.T) {
	var c jobapi.Tally
	start := time.Date(2026, 1, 2, 3, 59, 59, 0, time.UTC)
	none := func(string) time.Time { return time.Time{} }
	c.Move(time.Time{}, "a", 0, jobs.Failed) // of an earlier process
	c.Move(time.Time{}, "a", 0, jobs.Queued)
	c.Move(start, "b", 0, jobs.Queued)
	c.Move(start, "b", jobs.Queued, jobs.Running)
	c.Move(start.Add(time.Second), "b", jobs.Running, jobs.Succeeded)
	c.Move(start.Add(-time.Minute), "a", jobs.Queued, jobs.Canceled) // the clock was set back
	c.Move(start, "a", jobs.Failed, jobs.Running)                    // again
	c.Move(start, "a", jobs.Running, jobs.Failed)
	c.Move(start, "a", jobs.Failed, 0)
	hour := start.Truncate(time.Hour)
	want := jobapi.Counts{
		States: map[jobs.State]int{jobs.Queued: 0, jobs.Running: 0, jobs.Succeeded: 1, jobs.Failed: 0, jobs.Canceled: 1},
		Total:  jobapi.Flow{In: 1, Succeeded: 1, Failed: 1, Canceled: 1},
		Hours:  []jobapi.Flow{{Start: hour, In: 1}, {Start: hour.Add(time.Hour), Succeeded: 1, Failed: 1, Canceled: 1}},
	}
	if d := cmp.Diff(want, c.Counts(none)); d != "" {
		t.Error(d)
	}
	for i := range 30 {
		c.Move(start.Add(time.Duration(i)*time.Hour), "b", 0, jobs.Queued)
	}
	got := c.Counts(func(kind string) time.Time { return start })
	if n := len(got.Hours); n != 25 || !got.Hours[0].Start.Equal(hour.Add(5*time.Hour)) || got.Total.In != 31 {
		t.Errorf("%d hours, the first %+v, total %+v", n, got.Hours[0], got.Total)
	}
	if d := cmp.Diff([]jobapi.KindCount{{Kind: "b", Queued: 30, Oldest: start}}, got.Kinds); d != "" {
		t.Error(d)
	}
	if !c.Has("b") || c.Has("a") {
		t.Error("wrong kinds have jobs")
	}
}
