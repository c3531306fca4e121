package jobapi

import (
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// shown removes secrets from a message for the caller: it may quote a part of the
// request.
func shown(s string) string { return redact.Text(s) }

// ShownText returns what is shown of a text that others have written, in Redis say:
// visible characters, no secrets, at most n bytes. Every [Jobs] must use it.
func ShownText(s string, n int) string {
	return jobs.Clip(jobs.Visible(redact.Text(s)), n, "")
}

// ShownCode returns an error code that a worker has reported, or FAILED for what is no
// code or may hold a secret.
func ShownCode(reported string) string {
	if jobs.ValidCode(reported) && redact.Text(reported) == reported {
		return reported
	}
	return CodeFailed
}
