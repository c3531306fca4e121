package jobapitest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Summary is a job in one line: status, steps, progress.
func Summary(j jobapi.Job) string {
	var b strings.Builder
	b.WriteString(j.Status.String())
	for _, step := range j.Steps {
		fmt.Fprintf(&b, " %s:%s", step.Name, step.Status)
		if step.Message != "" {
			fmt.Fprintf(&b, "(%s)", step.Message)
		}
	}
	fmt.Fprintf(&b, " %d/%d/%d", j.Progress.Current, j.Progress.Completed, j.Progress.Total)
	return b.String()
}

// Check reports what is wrong with a job that any [jobapi.Jobs] shows: each status
// has its own fields, and steps are in the order of time.
func Check(t *testing.T, j jobapi.Job) {
	t.Helper()
	if j.CreatedAt.IsZero() || j.Version == "" || len(j.Version) > 32 {
		t.Errorf("job %s: created %v, version %q", j.ID, j.CreatedAt, j.Version)
	}
	if (j.Status == jobs.Failed) != (j.Error != nil) || (j.Status == jobs.Succeeded) != (j.Result != nil) || j.Status.Terminal() == j.FinishedAt.IsZero() {
		t.Errorf("job %s is %s, error %v, result %s, finished %v", j.ID, j.Status, j.Error, j.Result, j.FinishedAt)
	}
	last := j.StartedAt.Time
	for _, s := range j.Steps {
		if s.Status == jobapi.Pending && !s.StartedAt.IsZero() {
			t.Errorf("job %s: step %s is pending and has begun at %v", j.ID, s.Name, s.StartedAt)
		}
		ended := s.Status == jobapi.Succeeded || s.Status == jobapi.Skipped || s.Status == jobapi.Failed
		if ended == s.FinishedAt.IsZero() && s.Status != jobapi.Canceled {
			t.Errorf("job %s: step %s is %s and has finished at %v", j.ID, s.Name, s.Status, s.FinishedAt)
		}
		if s.StartedAt.IsZero() {
			continue
		}
		if s.StartedAt.Before(last) || !s.FinishedAt.IsZero() && s.FinishedAt.Before(s.StartedAt.Time) {
			t.Errorf("job %s: step %s from %v to %v, after %v", j.ID, s.Name, s.StartedAt, s.FinishedAt, last)
		}
		last = s.StartedAt.Time
	}
	if _, err := json.Marshal(j); err != nil {
		t.Errorf("job %s: %v", j.ID, err)
	}
}
