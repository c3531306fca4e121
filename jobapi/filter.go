package jobapi

import (
	"encoding/hex"
	"hash/fnv"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Filter selects jobs by what a list does not keep in order. The zero value selects all.
type Filter struct {
	Worker   string    // the name of the worker that runs the job, or ran it last
	IDPrefix string    // what its id begins with
	Error    string    // the [Fingerprint] of its error
	Since    time.Time // created then or later; zero for any
	Text     string    // in its id, its request or the message of its error, whatever the case
}

// Empty reports whether the filter selects all jobs.
func (f Filter) Empty() bool { return f == Filter{} }

// NeedsJobs reports whether items are too little to judge by: whole jobs must be read.
func (f Filter) NeedsJobs() bool { return f.Error != "" || f.Text != "" }

// Rare reports whether few jobs may pass, so that many are to be looked at for each that does. Since alone only ends a list.
func (f Filter) Rare() bool { return f.Worker != "" || f.IDPrefix != "" || f.NeedsJobs() }

// Item reports whether an item passes what can be judged by it.
func (f Filter) Item(i *Item) bool {
	return (f.Worker == "" || i.Worker == f.Worker) && strings.HasPrefix(i.ID, f.IDPrefix) &&
		(f.Since.IsZero() || !i.CreatedAt.Before(f.Since))
}

// Job reports whether a job passes the filter.
func (f Filter) Job(j *Job) bool {
	item := j.Item()
	if !f.Item(&item) || f.Error != "" && (j.Error == nil || Fingerprint(j.Type, j.Error) != f.Error) {
		return false
	}
	text := strings.ToLower(f.Text)
	found := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return text == "" || found(j.ID) || found(string(j.Request)) || j.Error != nil && found(j.Error.Message)
}

// varying matches what differs between two errors of one cause: numbers, long hexadecimal words, quoted texts and paths.
var varying = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"[^"]*"|'[^']*'|(/[\w.@:+-]+)+/?|\b[0-9a-fA-F]{8,}\b|[0-9A-Z]{26}|\d+`)
})

// fingerprinted is how much of a message counts.
const fingerprinted = 300

// Fingerprint returns 16 hexadecimal digits, which are the same for errors of one type of job that differ only in
// numbers, ids, quoted texts and paths.
func Fingerprint(jobType string, e *Error) string {
	sum := fnv.New64a()
	message := varying().ReplaceAllString(e.Message[:min(len(e.Message), fingerprinted)], "#")
	_, _ = sum.Write([]byte(jobType + "\x00" + e.Code + "\x00" + message))
	return hex.EncodeToString(sum.Sum(nil))
}
