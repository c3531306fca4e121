package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker/memory"
)

// Queue is the worker.Source of the tasks that are queued: those of higher priority first, then the older ones.
type Queue struct {
	tasks  *Tasks
	log    *taskLogs
	paused func(jobs.Kind) bool // whether the tasks of a kind wait for now
	memory.Queue
}

// leaseTTL is how long a lease lasts that is not extended. Nothing else has the queue, so it only
// has to be longer than the machine may sleep.
const leaseTTL = 24 * time.Hour

func newQueue(tasks *Tasks, log *taskLogs) *Queue {
	q := &Queue{tasks: tasks, log: log}
	q.LeaseTTL = leaseTTL
	q.Compare = byPriority
	for _, e := range tasks.all(Queued) {
		q.add(e.task.Load())
	}
	return q
}

const priorityKey = "priority"

// add puts a task into the queue, which is queued on disk.
func (q *Queue) add(t *Task) {
	q.Add(memory.Message{
		Job:        jobs.Job{ID: t.ID, Kind: t.Kind, Submitted: t.CreatedAt},
		Attributes: map[string]string{priorityKey: strconv.Itoa(t.Priority)},
	})
}

// byPriority is the order of the queue. Ids are in the order of their times.
func byPriority(a, b *memory.Message) int {
	priority := func(m *memory.Message) int {
		n, _ := strconv.Atoi(m.Attributes[priorityKey]) // add has written it
		return n
	}
	return cmp.Or(cmp.Compare(priority(b), priority(a)), cmp.Compare(a.Job.ID, b.Job.ID))
}

// Lease implements worker.Source.
func (q *Queue) Lease(ctx context.Context) (jobs.Lease, error) { return q.LeaseKinds(ctx, nil) }

// LeaseKinds implements worker.KindSource.
func (q *Queue) LeaseKinds(ctx context.Context, kinds []jobs.Kind) (jobs.Lease, error) {
	lease, err := q.LeaseIf(ctx, func(job *jobs.Job) bool {
		return (kinds == nil || slices.Contains(kinds, job.Kind)) && !q.paused(job.Kind)
	})
	if err == nil {
		q.fill(&lease)
	}
	return lease, err
}

// fill adds to a lease what the task was asked to do, which is on disk.
func (q *Queue) fill(lease *jobs.Lease) {
	id := lease.Job.ID
	t, err := q.tasks.Get(id)
	if err != nil || t.State.Terminal() {
		return // its claim is refused
	}
	text, err := q.tasks.dir.read(id, maxRequestFile, inputDir, requestFile)
	var r request
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil {
		lease.Job.Payload, err = r.payload()
	}
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err // the orchestrator is told, and the path is this machine's
		}
		lease.Invalid = &jobs.Failure{Code: codeInputDamaged, Err: fmt.Errorf("input/%s of the task cannot be read: %w", requestFile, err)}
		return
	}
	_ = q.tasks.dir.prepare(id) // the attempt meets what is still wrong
	q.log.hide(id, r.Input.prompt())
	for _, name := range t.Assets {
		lease.Job.Inputs = append(lease.Job.Inputs, path.Join(string(id), inputDir, name))
	}
}

// Ack implements worker.Source.
func (q *Queue) Ack(ctx context.Context, lease jobs.Lease) error {
	q.log.forget(lease.Job.ID)
	return q.Queue.Ack(ctx, lease)
}
