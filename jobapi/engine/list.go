package engine

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
)

// List implements [jobapi.Jobs]. A page is full unless it is the last.
func (e *Engine) List(_ context.Context, q jobapi.Query) (jobapi.Page, error) {
	if err := parseCursor(q.Cursor); err != nil {
		return jobapi.Page{}, err
	}
	e.lock()
	defer e.mu.Unlock()
	i := len(e.all)
	if q.Cursor != "" {
		i, _ = e.find(q.Cursor)
	}
	if !q.Until.IsZero() {
		i = min(i, e.before(q.Until))
	}
	var page jobapi.Page
	for i--; i >= 0; i-- {
		j := e.all[i]
		if q.Status != 0 && j.status != q.Status || q.Type != "" && j.typ != q.Type {
			continue
		}
		if n := len(page.Items); n == q.Limit {
			page.Next = page.Items[n-1].ID
			break
		}
		page.Items = append(page.Items, j.item(e.Scope))
	}
	return page, nil
}

// find returns where in all the job with an id is, or would be.
func (e *Engine) find(id string) (int, bool) {
	return slices.BinarySearchFunc(e.all, id, func(j *job, id string) int { return strings.Compare(j.id, id) })
}

// before returns how many jobs were created before a time, as they show it: no job was created before an older one.
func (e *Engine) before(until time.Time) int {
	return sort.Search(len(e.all), func(i int) bool { return !jobapi.At(e.all[i].created).Before(until) })
}

// Get implements [jobapi.Jobs].
func (e *Engine) Get(_ context.Context, ids []string) ([]jobapi.Job, error) {
	e.lock()
	defer e.mu.Unlock()
	found := make([]jobapi.Job, 0, len(ids))
	for _, id := range ids {
		if j := e.byID[id]; j != nil {
			found = append(found, j.snapshot(e.Scope))
		}
	}
	return found, nil
}

// Log implements [jobapi.Jobs]. The place of a line is its number, from 1.
func (e *Engine) Log(_ context.Context, id string, q jobapi.LogQuery) (jobapi.Log, error) {
	e.lock()
	j := e.byID[id]
	e.mu.Unlock()
	if j == nil {
		return jobapi.Log{}, jobapi.NoJob(id)
	}
	return j.log.read(q)
}
