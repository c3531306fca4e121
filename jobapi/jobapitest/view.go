package jobapitest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Until tests that a list begins at the jobs that were created before a time, whatever else the query has.
func Until(t *testing.T, r Rig) {
	t.Helper()
	for range 3 {
		r.Submit("text")
		r.nextMillisecond(t)
	}
	all := r.list(t, jobapi.Query{Limit: 200}, nil)
	for _, limit := range []int{1, 2, 200} {
		for i, item := range all {
			for at, from := range map[time.Time]int{item.CreatedAt.Time: i + 1, item.CreatedAt.Add(time.Millisecond): i} {
				got := idsOf(r.list(t, jobapi.Query{Limit: limit, Until: at, Type: r.Type}, func() { r.Submit("text") }))
				if !slices.Equal(got, idsOf(all[from:])) {
					t.Errorf("limit %d, until %v: listed %v, want %v", limit, at, got, idsOf(all[from:]))
				}
			}
		}
	}
	if page, err := r.Jobs.List(t.Context(), jobapi.Query{Limit: 10, Until: all[2].CreatedAt.Add(-time.Hour)}); err != nil || len(page.Items) != 0 || page.Next != "" {
		t.Errorf("until an hour before the first job: %+v, %v", page, err)
	}
}

// nextMillisecond waits until a job that is made now has another time than the newest one.
func (r Rig) nextMillisecond(t *testing.T) {
	t.Helper()
	page, err := r.Jobs.List(t.Context(), jobapi.Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for !time.Now().Truncate(time.Millisecond).After(page.Items[0].CreatedAt.Time) {
		select {
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		case <-time.After(100 * time.Microsecond):
		}
	}
}

// Changes tests [jobapi.Feed], which the rig's Jobs must be: each change of a job is told, once there is a position.
func Changes(t *testing.T, r Rig) {
	t.Helper()
	feed := r.Jobs.(jobapi.Feed)
	r.Submit("before")
	ids, at, lost, err := feed.Changes(t.Context(), "")
	if err != nil || len(ids) != 0 || at == "" || lost {
		t.Fatalf("the present is %v, %q, lost %t, %v", ids, at, lost, err)
	}
	begin, told := at, []string{}
	tells := func(id, what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			ids, next, lost, err := feed.Changes(ctx, at)
			if err != nil || lost || len(ids) == 0 {
				t.Fatalf("%s is not told: %v, lost %t, %v", what, ids, lost, err)
			}
			at = next
			told = append(told, ids...)
			if slices.Contains(ids, id) {
				return
			}
		}
	}
	first := r.oldest(t)
	r.Start(first)
	tells(first, "the start")
	r.End(first, jobs.Failed, "text")
	tells(first, "the end")
	second := r.Submit("text")
	tells(second, "the submission")
	if _, err := r.Jobs.Cancel(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	tells(second, "the end by Cancel")
	again, _, lost, err := feed.Changes(t.Context(), begin)
	if n := min(len(again), len(told)); err != nil || lost || len(again) == 0 || !slices.Equal(again[:n], told[:n]) {
		t.Errorf("from the first position: %v, lost %t, %v; want %v", again, lost, err, told)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 { // what is told late, such as a delivery, may follow
		if ids, at, lost, err = feed.Changes(ended, at); len(ids) == 0 {
			break
		}
	}
	if err != nil || lost || at == "" {
		t.Errorf("without changes: %v, %q, lost %t, %v", ids, at, lost, err)
	}
	for _, position := range []string{"x", "0-0", "nonsense-1", at + "0", "-", at + "-"} {
		if ids, next, lost, err := feed.Changes(t.Context(), position); err != nil || !lost || len(ids) > 0 || next == "" {
			t.Errorf("position %q: %v, %q, lost %t, %v", position, ids, next, lost, err)
		}
	}
}

// oldest returns the id of the only job.
func (r Rig) oldest(t *testing.T) string {
	t.Helper()
	page, err := r.Jobs.List(t.Context(), jobapi.Query{Limit: 1})
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	return page.Items[0].ID
}

// Counter tests [jobapi.Counter], which the rig's Jobs must be, on jobs in all states.
func Counter(t *testing.T, r Rig) {
	t.Helper()
	kind := r.Type[len(r.scope())+1:]
	count := func() jobapi.Counts {
		t.Helper()
		c, err := r.Jobs.(jobapi.Counter).Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := count(); len(c.Kinds) != 0 || c.Total != (jobapi.Flow{}) {
		t.Errorf("without jobs: %+v", c)
	}
	ended := []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Failed, jobs.Canceled}
	for _, state := range ended {
		id := r.Submit("text")
		r.Start(id)
		if state == jobs.Canceled {
			if _, err := r.Jobs.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		r.End(id, state, "text")
	}
	r.Start(r.Submit("text"))
	oldest := r.Submit("text")
	canceled := r.Submit("text")
	if _, err := r.Jobs.Cancel(t.Context(), canceled); err != nil {
		t.Fatal(err)
	}
	r.Submit("text")
	c := count()
	for state, want := range map[jobs.State]int{jobs.Queued: 2, jobs.Running: 1, jobs.Succeeded: 1, jobs.Failed: 2, jobs.Canceled: 2} {
		if c.States[state] != want {
			t.Errorf("%d are %s, want %d", c.States[state], state, want)
		}
	}
	want := jobapi.KindCount{Kind: kind, Queued: 2, Running: 1, Oldest: r.get(t, oldest).CreatedAt.Time}
	if len(c.Kinds) != 1 || !c.Kinds[0].Oldest.Truncate(time.Millisecond).Equal(want.Oldest) {
		t.Fatalf("kinds %+v, want %+v", c.Kinds, want)
	}
	if c.Kinds[0].Oldest = want.Oldest; c.Kinds[0] != want {
		t.Errorf("kind %+v, want %+v", c.Kinds[0], want)
	}
	flow := jobapi.Flow{In: 8, Succeeded: 1, Failed: 2, Canceled: 2}
	if c.Total != flow {
		t.Errorf("total %+v, want %+v", c.Total, flow)
	}
	var hours jobapi.Flow
	for _, h := range c.Hours {
		if h.Start.IsZero() || h.Start.Minute() != 0 {
			t.Errorf("an hour begins at %v", h.Start)
		}
		hours.In, hours.Succeeded, hours.Failed, hours.Canceled = hours.In+h.In, hours.Succeeded+h.Succeeded, hours.Failed+h.Failed, hours.Canceled+h.Canceled
	}
	if hours != flow {
		t.Errorf("hours %+v, want %+v together", c.Hours, flow)
	}
}

// scope returns the scope of the rig's jobs.
func (r Rig) scope() string {
	for i := range r.Type {
		if r.Type[i] == '.' {
			return r.Type[:i]
		}
	}
	return ""
}

// Explainer tests [jobapi.Explainer], which the rig's Jobs must be: one job in each state, with a code for each. queued are those that a queued
// job behind another one may have.
func Explainer(t *testing.T, r Rig, queued ...string) {
	t.Helper()
	why := func(id string, want ...string) jobapi.Reason {
		t.Helper()
		all, err := r.Jobs.(jobapi.Explainer).Why(t.Context(), id)
		if err != nil || len(all) == 0 || !slices.Contains(want, all[0].Code) || all[0].Message == "" {
			t.Fatalf("why %s: %+v, %v; want one of %v first", id, all, err, want)
		}
		return all[0]
	}
	if _, err := r.Jobs.(jobapi.Explainer).Why(t.Context(), "unknown"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown job: %v", err)
	}
	first, second := r.Submit("text"), r.Submit("text")
	why(second, queued...)
	r.Start(first)
	if got := why(first, jobapi.WhyLeased); got.Since.IsZero() {
		t.Errorf("while it runs: %+v", got)
	}
	r.End(first, jobs.Failed, "token=hunter2canary")
	if got := why(first, jobapi.WhyEnded); got.Since.IsZero() {
		t.Errorf("of a failed job: %+v", got)
	}
	if _, err := r.Jobs.Cancel(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	why(second, jobapi.WhyEnded)
}
