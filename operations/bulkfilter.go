package operations

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// bulkFilter says which jobs are meant, in the words of lists.
type bulkFilter struct {
	Scope    string `json:"scope" required:"true"`
	Status   string `json:"status"`
	Kind     string `json:"kind"` // without the scope
	Worker   string `json:"worker"`
	IDPrefix string `json:"id_prefix"`
	Error    string `json:"error"` // a fingerprint
	Since    string `json:"since"`
	Until    string `json:"until"`
	Text     string `json:"q"`
	All      bool   `json:"all"` // really all of the scope
}

// shownFilter is what a job shows of it.
type shownFilter struct {
	Scope     string `json:"scope"`
	Status    string `json:"status,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Worker    string `json:"worker,omitempty"`
	IDPrefix  string `json:"id_prefix,omitempty"`
	Error     string `json:"error,omitempty"`
	Since     string `json:"since,omitempty"`
	Until     string `json:"until,omitempty"`
	TextBytes int    `json:"qBytes,omitempty"`
	All       bool   `json:"all,omitempty"`
}

func (f *bulkFilter) shown() shownFilter {
	return shownFilter{
		f.Scope, f.Status, f.Kind, jobapi.ShownText(f.Worker, maxWorker), jobapi.ShownText(f.IDPrefix, jobs.MaxIDLength), f.Error, f.Since, f.Until, len(f.Text), f.All,
	}
}

// Limits of a filter.
const (
	maxWorker = 256 // bytes
	maxText   = 200 // characters
)

var filterPatterns = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"kind":      regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`),
		"id_prefix": regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`),
		"error":     regexp.MustCompile(`^[0-9a-f]{16}$`),
	}
})

// selection returns the jobs that are meant, as of now.
func (f *bulkFilter) selection(in jobapi.Jobs, do bulkAction, now time.Time) (*selection, error) {
	fields := []struct{ name, value string }{
		{"status", f.Status}, {"kind", f.Kind}, {"worker", f.Worker}, {"id_prefix", f.IDPrefix}, {"error", f.Error}, {"since", f.Since}, {"until", f.Until}, {"q", f.Text},
	}
	given := false
	for _, field := range fields {
		given = given || field.value != ""
		if pattern := filterPatterns()[field.name]; pattern != nil && field.value != "" && !pattern.MatchString(field.value) {
			return nil, &jobapi.FieldError{Field: field.name, Problem: "want what matches " + pattern.String()}
		}
	}
	switch {
	case !given && !f.All:
		return nil, &jobapi.FieldError{Field: "all", Problem: "nothing but the scope is given: give status, kind, worker, id_prefix, error, since, until or q, or all: true for all of its jobs"}
	case len(f.Worker) > maxWorker || !utf8.ValidString(f.Worker):
		return nil, &jobapi.FieldError{Field: "worker", Problem: "want at most 256 bytes of UTF-8"}
	case utf8.RuneCountInString(f.Text) > maxText || !utf8.ValidString(f.Text):
		return nil, &jobapi.FieldError{Field: "q", Problem: "want at most 200 characters"}
	}
	s := &selection{in: in, states: do.states, filter: jobapi.Filter{Worker: f.Worker, IDPrefix: f.IDPrefix, Error: f.Error, Text: f.Text}}
	if f.Status != "" {
		var state jobs.State
		if err := state.UnmarshalText([]byte(f.Status)); err != nil || !slices.Contains(do.states, state) {
			return nil, &jobapi.FieldError{Field: "status", Problem: do.refused}
		}
		s.states = []jobs.State{state}
	}
	if f.Kind != "" {
		s.jobType = f.Scope + "." + f.Kind
	}
	var err, err2 error
	s.filter.Since, err = moment("since", f.Since, now)
	s.until, err2 = moment("until", f.Until, now)
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	if s.until.IsZero() || s.until.After(now) {
		s.until = now
	}
	return s, nil
}

// moment reads a time in RFC 3339, or how long before now it is, such as 24h or 7d; zero for none.
func moment(field, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	back, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 12)
		back = time.Duration(n) * 24 * time.Hour //nolint:gosec // at most 4095
	}
	if err != nil || back <= 0 || back > maxBack {
		return time.Time{}, &jobapi.FieldError{Field: field, Problem: "want a time such as 2026-01-31T12:00:00Z, or how long ago, such as 24h or 7d, at most 3650d"}
	}
	return now.Add(-back), nil
}

const maxBack = 3650 * 24 * time.Hour
