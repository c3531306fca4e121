package relay

import (
	"slices"
	"strings"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
)

// find returns where in a list of entries by id the one with an id is, or would be.
func find(list []*entry, id jobs.ID) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(e *entry, id jobs.ID) int { return strings.Compare(string(e.id), string(id)) })
}

func insert(list []*entry, e *entry) []*entry {
	i, _ := find(list, e.id)
	return slices.Insert(list, i, e)
}

func remove(list []*entry, e *entry) []*entry {
	if i, ok := find(list, e.id); ok && list[i] == e {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// moved counts a task that was made (before is nil), has changed its state or its attempt, or was deleted (after is nil), and tells those who
// follow changes. A change at the zero time was made by an earlier relay. ts.mu is held.
func (ts *Tasks) moved(e *entry, before, after *Task, at time.Time) {
	var from, to jobs.State
	var kind jobs.Kind
	if before != nil {
		from, kind = before.State.job(), before.Kind
		ts.place(e, before, -1)
	}
	if after != nil {
		to, kind = after.State.job(), after.Kind
		ts.place(e, after, 1)
	}
	ts.tally.Move(at, string(kind), from, to)
	ts.changes.Add(string(e.id))
}

// place adds a task to what is kept by state, or takes it out: by is 1 or -1.
func (ts *Tasks) place(e *entry, t *Task, by int64) {
	ts.counts[t.State].Add(by)
	if t.uploadFailed() {
		ts.unsent.Add(by)
	}
	switch {
	case t.State != Queued:
	case by > 0:
		ts.waiting[t.Kind] = insert(ts.waiting[t.Kind], e)
	default:
		if ts.waiting[t.Kind] = remove(ts.waiting[t.Kind], e); len(ts.waiting[t.Kind]) == 0 {
			delete(ts.waiting, t.Kind)
		}
	}
}

// uploadFailed reports whether only the upload of a task has failed: it can be made again.
func (t *Task) uploadFailed() bool { return t.State == Failed && t.Error.Code == codeUploadFailed }

// oldest returns when the oldest queued task of a kind was created; zero if there is none.
func (ts *Tasks) oldest(kind string) time.Time {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	if list := ts.waiting[jobs.Kind(kind)]; len(list) > 0 {
		return list[0].task.Load().CreatedAt
	}
	return time.Time{}
}

// ahead returns how many queued tasks of kinds that share are started before a task.
func (ts *Tasks) ahead(of *Task, share func(jobs.Kind) bool) (n int) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	for kind, list := range ts.waiting {
		if !share(kind) {
			continue
		}
		for _, e := range list {
			t := e.task.Load()
			if t.Priority > of.Priority || t.Priority == of.Priority && t.ID < of.ID {
				n++
			}
		}
	}
	return n
}
