package cli

import (
	"testing"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

func TestK10WatchSaysWhyAJobWaits(t *testing.T) {
	steps := []jobapi.Step{{Name: "fetch", Status: jobapi.Pending, Message: "waits until 2031-01-02T03:04:05Z: attempt 1 failed: exit 3; next in 10 s"}, {Name: "run", Status: jobapi.Pending}}
	j := jobapi.Job{Status: jobs.Queued, Steps: steps, Progress: jobapi.ProgressOf(steps)}
	if got, want := changeLine(j), "queued    0/2  "+steps[0].Message; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	steps[0].Message = ""
	if got, want := changeLine(j), "queued    0/2"; got != want {
		t.Errorf("of a new job it says %q, want %q", got, want)
	}
}
