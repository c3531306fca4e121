// Package dashboardtest is a fleet in memory behind a real Job API, for tests of the pages over it: it can do all that any scope can.
package dashboardtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Fleet are the jobs of one scope, in memory. Its fields may be changed before the first call, its methods called concurrently.
type Fleet struct {
	Scope   string
	Catalog []jobapi.Kind
	Force   []jobapi.Worker
	Tables  []jobapi.Section

	mu        sync.Mutex
	all       []jobapi.Job // the oldest first
	logs      map[string][]jobapi.Line
	artifacts map[string]map[string][]byte
	reasons   map[string][]jobapi.Reason
	paused    map[string]jobapi.Time
	inputs    map[string][]byte
	submitted map[string]string // ids by their keys
	done      []string          // what was asked for beside jobs
	changed   chan struct{}
	version   int
}

// New returns an empty fleet.
func New(scope string) *Fleet {
	return &Fleet{
		Scope: scope, logs: map[string][]jobapi.Line{}, artifacts: map[string]map[string][]byte{}, reasons: map[string][]jobapi.Reason{},
		paused: map[string]jobapi.Time{}, inputs: map[string][]byte{}, submitted: map[string]string{}, changed: make(chan struct{}),
	}
}

// Put adds a job, or replaces the one with its id.
func (f *Fleet) Put(j jobapi.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(j)
}

func (f *Fleet) put(j jobapi.Job) {
	j.Scope = f.Scope
	if len(j.Request) == 0 {
		j.Request = json.RawMessage("{}")
	}
	f.version++
	j.Version = strconv.Itoa(f.version)
	i := slices.IndexFunc(f.all, func(other jobapi.Job) bool { return other.ID == j.ID })
	if i < 0 {
		f.all = append(f.all, j)
		slices.SortFunc(f.all, func(a, b jobapi.Job) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt.Time), cmp.Compare(a.ID, b.ID))
		})
	} else {
		f.all[i] = j
	}
	f.tell()
}

func (f *Fleet) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Write adds lines to the log of a job.
func (f *Fleet) Write(id string, lines ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range lines {
		at := time.Now().Add(time.Duration(len(f.logs[id])) * time.Millisecond)
		f.logs[id] = append(f.logs[id], jobapi.Line{Pos: strconv.Itoa(len(f.logs[id]) + 1), Time: at, Text: text})
	}
	f.tell()
}

// Keep gives a job an artifact.
func (f *Fleet) Keep(id, name string, content []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.artifacts[id] == nil {
		f.artifacts[id] = map[string][]byte{}
	}
	f.artifacts[id][name] = content
}

// Explain says why a job is as it is.
func (f *Fleet) Explain(id string, reasons ...jobapi.Reason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reasons[id] = reasons
}

// Done returns what was asked for beside jobs, oldest first, such as "drain w1".
func (f *Fleet) Done() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

// Input returns what was uploaded under a name.
func (f *Fleet) Input(object string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inputs[object]
}

// Changed implements [jobapi.Notifier].
func (f *Fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// List implements [jobapi.Jobs].
func (f *Fleet) List(_ context.Context, q jobapi.Query) (p jobapi.Page, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	skip := 0
	if q.Cursor != "" {
		if skip, err = strconv.Atoi(q.Cursor); err != nil {
			return p, &jobapi.FieldError{Field: "cursor", Problem: "no page had it"}
		}
	}
	n := 0
	for i := range slices.Backward(f.all) {
		j := &f.all[i]
		if q.Status != 0 && j.Status != q.Status || q.Type != "" && j.Type != q.Type || !q.Until.IsZero() && !j.CreatedAt.Before(q.Until) {
			continue
		}
		if n++; n <= skip {
			continue
		}
		if len(p.Items) == q.Limit {
			p.Next = strconv.Itoa(n - 1)
			break
		}
		p.Items = append(p.Items, j.Item())
	}
	return p, nil
}

// Get implements [jobapi.Jobs].
func (f *Fleet) Get(_ context.Context, ids []string) (found []jobapi.Job, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if j := f.find(id); j != nil {
			found = append(found, *j)
		}
	}
	return found, nil
}

func (f *Fleet) find(id string) *jobapi.Job {
	for i := range f.all {
		if f.all[i].ID == id {
			return &f.all[i]
		}
	}
	return nil
}

// Log implements [jobapi.Jobs].
func (f *Fleet) Log(_ context.Context, id string, q jobapi.LogQuery) (jobapi.Log, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.find(id) == nil {
		return jobapi.Log{}, jobapi.NoJob(id)
	}
	lines := f.logs[id]
	if q.After != "" {
		i := slices.IndexFunc(lines, func(l jobapi.Line) bool { return l.Pos == q.After })
		lines = lines[i+1:]
		return jobapi.Log{Lines: slices.Clone(lines[:min(q.Tail, len(lines))])}, nil
	}
	return jobapi.Log{Lines: slices.Clone(lines[max(0, len(lines)-q.Tail):])}, nil
}

// Cancel implements [jobapi.Jobs].
func (f *Fleet) Cancel(_ context.Context, id string) (jobapi.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.find(id)
	switch {
	case j == nil:
		return jobapi.Job{}, jobapi.NoJob(id)
	case j.Status.Terminal():
		return *j, jobapi.ErrEnded
	}
	ended := *j
	ended.Status, ended.FinishedAt = jobs.Canceled, jobapi.At(time.Now())
	f.put(ended)
	return ended, nil
}

// Retry implements [jobapi.Retrier].
func (f *Fleet) Retry(_ context.Context, id string) (jobapi.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.find(id)
	switch {
	case j == nil:
		return jobapi.Job{}, jobapi.NoJob(id)
	case j.Status != jobs.Failed:
		return *j, jobapi.ErrNotFailed
	}
	again := *j
	again.Status, again.StartedAt, again.FinishedAt, again.Error = jobs.Queued, jobapi.Time{}, jobapi.Time{}, nil
	f.put(again)
	return again, nil
}

// Submit implements [jobapi.Submitter].
func (f *Fleet) Submit(_ context.Context, s jobapi.Submission) (jobapi.Job, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id := f.submitted[s.Key]; s.Key != "" && id != "" {
		return *f.find(id), true, nil
	}
	var params map[string]any
	if len(s.Params) > 0 && json.Unmarshal(s.Params, &params) != nil {
		return jobapi.Job{}, false, &jobapi.FieldError{Field: "params", Problem: "want an object"}
	}
	if n, ok := params["dpi"].(float64); ok && (n < 1 || n > 1200) {
		return jobapi.Job{}, false, &jobapi.FieldError{Field: "params.dpi", Problem: "want 1 to 1200"}
	}
	request, err := json.Marshal(map[string]any{"kind": s.Kind, "params": params, "input": s.Input})
	if err != nil {
		return jobapi.Job{}, false, err
	}
	j := jobapi.Job{
		ID: cmp.Or(s.ID, fmt.Sprintf("job-%05d", len(f.all)+1)), Type: f.Scope + "." + s.Kind, Status: jobs.Queued, CreatedAt: jobapi.At(time.Now()), Request: request,
	}
	f.submitted[s.Key] = j.ID
	f.put(j)
	return *f.find(j.ID), false, nil
}

// Artifacts implements [jobapi.Keeper].
func (f *Fleet) Artifacts(_ context.Context, id string) (all []jobapi.Artifact, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.find(id) == nil {
		return nil, jobapi.NoJob(id)
	}
	for name, content := range f.artifacts[id] {
		all = append(all, jobapi.ArtifactOf(name, int64(len(content))))
	}
	slices.SortFunc(all, func(a, b jobapi.Artifact) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// OpenArtifact implements [jobapi.Keeper].
func (f *Fleet) OpenArtifact(_ context.Context, id, name string) (io.ReadCloser, jobapi.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.artifacts[id][name]
	if !ok {
		return nil, jobapi.Artifact{}, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(content)), jobapi.ArtifactOf(name, int64(len(content))), nil
}
