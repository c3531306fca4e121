package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobs"
)

// Tasks are the tasks of a relay, on disk and in memory. Its methods may be called concurrently.
type Tasks struct {
	log *slog.Logger
	dir *directory
	// events is told of each change of a task, whose entry is locked.
	events func(*entry, *Task)

	mu      sync.RWMutex
	byID    map[jobs.ID]*entry
	order   []*entry               // by id, and so by age
	byKey   map[string]*entry      // by Task.KeyHash
	making  map[string]bool        // keys of tasks that are being made
	waiting map[jobs.Kind][]*entry // those that are queued, by id

	counts  [Canceled + 1]atomic.Int64 // by state
	unsent  atomic.Int64               // tasks whose upload has failed: they wait for somebody to decide
	tally   jobapi.Tally
	changes jobapi.Changes
}

// entry is a task in memory.
type entry struct {
	id jobs.ID
	// task is the task as it is on disk, but for its progress. Who changes it holds mu and puts another one in its place.
	task atomic.Pointer[Task]

	mu     sync.Mutex
	claim  claim
	saved  time.Time              // when task.json was last written
	cancel context.CancelFunc     // ends the upload under way; nil without one
	made   map[string]fs.FileInfo // what its program has made, while it is uploading and none but this process had it
	busy   bool                   // its events are on their way
	turn   int                    // counts the callbacks that were registered: each has its events on their way
}

// openTasks opens a directory of tasks and reads them. Those that were running when an earlier relay died are
// queued again, or have failed.
func openTasks(ctx context.Context, path string, log *slog.Logger, m *Metrics) (*Tasks, error) {
	dir, err := openDirectory(path, log)
	if err != nil {
		return nil, err
	}
	ts := &Tasks{log: log, dir: dir, byID: map[jobs.ID]*entry{}, byKey: map[string]*entry{}, making: map[string]bool{}, waiting: map[jobs.Kind][]*entry{}}
	tasks, bad, err := dir.load(ctx)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	m.quarantined.Add(float64(bad))
	for _, t := range tasks {
		ts.add(t, time.Time{})
	}
	for _, e := range ts.order {
		if err := ts.recover(ctx, e); err != nil {
			return nil, errors.Join(fmt.Errorf("task %s: %w", e.id, err), dir.close())
		}
	}
	return ts, nil
}

// close unlocks the directory.
func (ts *Tasks) close() error { return ts.dir.close() }

// put adds a task that is on disk.
func (ts *Tasks) put(t *Task) *entry { return ts.add(t, t.CreatedAt) }

// add is put for a task that was made at a time; zero if an earlier relay has made it.
func (ts *Tasks) add(t *Task, made time.Time) *entry {
	e := &entry{id: t.ID, saved: time.Now()}
	e.task.Store(t)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.byID[t.ID] = e
	ts.order = insert(ts.order, e)
	if t.KeyHash != "" {
		ts.byKey[t.KeyHash] = e
	}
	ts.moved(e, nil, t, made)
	return e
}

// Changed returns a channel that is closed at the next change of any task.
func (ts *Tasks) Changed() <-chan struct{} { return ts.changes.Changed() }

// find returns a task, nil if there is none.
func (ts *Tasks) find(id jobs.ID) *entry {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.byID[id]
}

// lock returns a task with its mu held. The error wraps [fs.ErrNotExist] if there is none.
func (ts *Tasks) lock(id jobs.ID) (*entry, error) {
	e := ts.find(id)
	if e == nil {
		return nil, fmt.Errorf("task %s: %w", id, fs.ErrNotExist)
	}
	e.mu.Lock()
	return e, nil
}

// Get returns a task as it is now. The error wraps [fs.ErrNotExist] if there is none.
func (ts *Tasks) Get(id jobs.ID) (*Task, error) {
	e := ts.find(id)
	if e == nil {
		return nil, fmt.Errorf("task %s: %w", id, fs.ErrNotExist)
	}
	return e.task.Load(), nil
}

// count returns how many tasks are in a state.
func (ts *Tasks) count(s State) int { return int(ts.counts[s].Load()) }

// newest calls visit with the tasks before the one with that id that were created before until, the newest first, until it returns false. An
// empty id is after all, and so is a zero time.
func (ts *Tasks) newest(before jobs.ID, until time.Time, visit func(*Task) bool) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	i := len(ts.order)
	if before != "" {
		i, _ = find(ts.order, before)
	}
	if !until.IsZero() {
		i = min(i, sort.Search(len(ts.order), func(i int) bool { return !ts.order[i].task.Load().CreatedAt.Before(until) }))
	}
	for i--; i >= 0; i-- {
		if !visit(ts.order[i].task.Load()) {
			return
		}
	}
}

// all returns all tasks of the given states, the oldest first.
func (ts *Tasks) all(states ...State) (found []*entry) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	for _, e := range ts.order {
		if slices.Contains(states, e.task.Load().State) {
			found = append(found, e)
		}
	}
	return found
}

// errUnchanged is what a change returns that has nothing to write.
var errUnchanged = errors.New("unchanged")

// update changes a task: on disk, and then for all to see. After an error it is as it was. change must not
// alter what the task's slices and pointers lead to.
func (ts *Tasks) update(e *entry, change func(*Task) error) (*Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return ts.change(e, change)
}

// change is update for who holds e.mu.
func (ts *Tasks) change(e *entry, change func(*Task) error) (*Task, error) {
	before := e.task.Load()
	if ts.find(e.id) != e { // it was deleted meanwhile, and what is written would bring it back
		return before, fmt.Errorf("task %s: %w", e.id, fs.ErrNotExist)
	}
	after := *before
	if err := change(&after); err != nil {
		return before, err
	}
	if err := ts.dir.save(&after); err != nil {
		return before, fmt.Errorf("%w: write task %s: %w", jobs.ErrUnavailable, e.id, err)
	}
	e.saved = time.Now()
	ts.publish(e, &after)
	return &after, nil
}

// publish shows a changed task. e.mu is held.
func (ts *Tasks) publish(e *entry, t *Task) {
	before := e.task.Swap(t)
	if ts.events != nil {
		ts.events(e, t)
	}
	if before.State == t.State && before.Attempt == t.Attempt {
		ts.changes.Wake()
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.moved(e, before, t, time.Now())
}

// resume goes on with what was on its way when the last relay ended: uploads, by start, and events.
func (ts *Tasks) resume(start func(*entry)) {
	for _, e := range ts.order {
		e.mu.Lock()
		t := e.task.Load()
		if t.State == Uploading {
			start(e)
		}
		ts.events(e, t)
		e.mu.Unlock()
	}
}

// drop deletes a task that has ended. The error wraps [fs.ErrNotExist] if it is deleted already.
func (ts *Tasks) drop(e *entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.task.Load()
	if ts.find(e.id) != e { // another call has deleted it, and it must not be counted twice
		return fmt.Errorf("delete task %s: %w", e.id, fs.ErrNotExist)
	}
	if !t.State.Terminal() {
		return fmt.Errorf("delete task %s: it is %s", e.id, t.State) // its upload is made again
	}
	if err := ts.dir.remove(e.id); err != nil {
		return fmt.Errorf("delete task %s: %w", e.id, err)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.byID, e.id)
	if ts.byKey[t.KeyHash] == e {
		delete(ts.byKey, t.KeyHash)
	}
	ts.order = remove(ts.order, e)
	ts.moved(e, t, nil, time.Time{})
	return nil
}
