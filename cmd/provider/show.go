package provider

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"

	"github.com/batchfleet/batchfleet/httpd"
	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/redact"
	"github.com/batchfleet/batchfleet/jobs"
)

// clean returns what is shown of a text from outside: visible, without secrets, and
// at most n bytes of it. Whoever can write to Redis may have put it there.
func clean(s string, n int) string {
	return httpd.Clip(jobs.Visible(redact.Text(s)), n)
}

var codePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// shownCode returns a code that a worker has reported, if it is one and no secret.
func shownCode(reported string) string {
	if codePattern.MatchString(reported) && redact.Text(reported) == reported {
		return reported
	}
	return "FAILED"
}

// itemOf returns what a list shows of a job.
func itemOf(j jobapi.Job) jobapi.Item {
	return jobapi.Item{
		ID: j.ID, Scope: j.Scope, Type: j.Type, Status: j.Status, CreatedAt: j.CreatedAt, StartedAt: j.StartedAt,
		FinishedAt: j.FinishedAt, Attempt: j.Attempt, Worker: j.Worker,
	}
}

// setVersion gives a job that is complete a version: a hash of all that is shown.
func setVersion(j *jobapi.Job) error {
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("show job %s: %w", j.ID, err)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	j.Version = strconv.FormatUint(sum.Sum64(), 16)
	return nil
}
