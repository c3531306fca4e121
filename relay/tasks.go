package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	order   []*entry          // by id, and so by age
	byKey   map[string]*entry // by Task.KeyHash
	making  map[string]bool   // keys of tasks that are being made
	changed chan struct{}     // closed at the next change

	counts [Canceled + 1]atomic.Int64 // by state
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
	ts := &Tasks{log: log, dir: dir, byID: map[jobs.ID]*entry{}, byKey: map[string]*entry{}, making: map[string]bool{}, changed: make(chan struct{})}
	tasks, bad, err := dir.load(ctx)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	m.quarantined.Add(float64(bad))
	for _, t := range tasks {
		ts.put(t)
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
func (ts *Tasks) put(t *Task) *entry {
	e := &entry{id: t.ID, saved: time.Now()}
	e.task.Store(t)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.byID[t.ID] = e
	i, _ := slices.BinarySearchFunc(ts.order, t.ID, func(e *entry, id jobs.ID) int { return strings.Compare(string(e.id), string(id)) })
	ts.order = slices.Insert(ts.order, i, e)
	if t.KeyHash != "" {
		ts.byKey[t.KeyHash] = e
	}
	ts.counts[t.State].Add(1)
	ts.broadcast()
	return e
}

// broadcast wakes who waits for a change. ts.mu is held.
func (ts *Tasks) broadcast() {
	close(ts.changed)
	ts.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change of any task.
func (ts *Tasks) Changed() <-chan struct{} {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.changed
}

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

// newest calls visit with the tasks before the one with that id, the newest first, until it returns false. An empty id
// is after all.
func (ts *Tasks) newest(before jobs.ID, visit func(*Task) bool) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	i := len(ts.order)
	if before != "" {
		i, _ = slices.BinarySearchFunc(ts.order, before, func(e *entry, id jobs.ID) int { return strings.Compare(string(e.id), string(id)) })
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
	if before.State != t.State {
		ts.counts[before.State].Add(-1)
		ts.counts[t.State].Add(1)
	}
	if ts.events != nil {
		ts.events(e, t)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.broadcast()
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
	if i := slices.Index(ts.order, e); i >= 0 {
		ts.order = slices.Delete(ts.order, i, i+1)
	}
	ts.counts[t.State].Add(-1)
	ts.broadcast()
	return nil
}
