package jobapi

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strconv"
	"strings"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/redact"
)

// shown returns a text of ours as a caller may see it, who may have put a secret
// where we quote something.
func shown(s string) string { return redact.Text(s) }

// What a [Jobs] shows of texts that others have written, in Redis say: every
// implementation passes them through here.

// maxLine is the longest line of a log that is shown, in bytes.
const maxLine = 64 << 10

// ShownText returns what is shown of a text: visible characters, no secrets, at
// most n bytes.
func ShownText(s string, n int) string {
	return jobs.Clip(jobs.Visible(redact.Text(s)), n, "")
}

// ShownCode returns an error code that a worker has reported, or FAILED for what
// is no code or may be a secret.
func ShownCode(reported string) string {
	if jobs.ValidCode(reported) && redact.Text(reported) == reported {
		return reported
	}
	return "FAILED"
}

// ShownLines turns the lines of a log, given in order, into what is shown of them.
// A secret may span several lines, so lines before the first one shown are given
// to it, too. The zero value is ready.
type ShownLines struct{ secrets redact.Lines }

var lineEnds = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// Next returns what is shown of the next line.
func (s *ShownLines) Next(text string) string {
	return ShownText(s.secrets.Line(lineEnds.Replace(text)), maxLine)
}

// NoJob is the error for a job that is not there; it wraps [fs.ErrNotExist].
func NoJob(id string) error { return fmt.Errorf("job %.40q: %w", id, fs.ErrNotExist) }

// Item returns what a list shows of the job.
func (j *Job) Item() Item {
	return Item{
		ID: j.ID, Scope: j.Scope, Type: j.Type, Status: j.Status, CreatedAt: j.CreatedAt, StartedAt: j.StartedAt,
		FinishedAt: j.FinishedAt, Attempt: j.Attempt, Worker: j.Worker,
	}
}

// SetVersion gives a job that is complete a version: a hash of all that is shown.
func (j *Job) SetVersion() error {
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("show job %s: %w", j.ID, err)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	j.Version = strconv.FormatUint(sum.Sum64(), 16)
	return nil
}
