package operations

import (
	"slices"
	"time"

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

// maxWorker is how long the name of a worker is shown, in bytes.
const maxWorker = 256

var bulkKind = jobs.Form(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// selection returns the jobs that are meant, as of now.
func (f *bulkFilter) selection(in jobapi.Jobs, do bulkAction, now time.Time) (*selection, error) {
	fields := map[string]string{"worker": f.Worker, "id_prefix": f.IDPrefix, "error": f.Error, "since": f.Since, "until": f.Until, "q": f.Text}
	filter, until, err := jobapi.ParseFilter(func(name string) string { return fields[name] }, now)
	switch {
	case err != nil:
		return nil, err
	case f.Kind != "" && !bulkKind().MatchString(f.Kind):
		return nil, &jobapi.FieldError{Field: "kind", Problem: "want the name of a kind, such as pdf"}
	case filter.Empty() && until.IsZero() && f.Status == "" && f.Kind == "" && !f.All:
		return nil, &jobapi.FieldError{Field: "all", Problem: "nothing but the scope is given: give status, kind, worker, id_prefix, error, since, until or q, or all: true for all of its jobs"}
	}
	if until.IsZero() || until.After(now) {
		until = now
	}
	s := &selection{in: in, states: do.states, filter: filter, until: until}
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
	return s, nil
}
