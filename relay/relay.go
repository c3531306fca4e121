package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfleet/batchfleet/httpd/egress"
	"github.com/batchfleet/batchfleet/internal/disk"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/kinds"
	"github.com/batchfleet/batchfleet/redact"
)

// Relay is a relay's directory with all that is done in it. Set the exported fields, call [Relay.Open], run a worker on
// its Source and Status beside [Relay.Run], serve its Handler, and call [Relay.Close] when all have ended.
type Relay struct {
	Dir     string // made if it is missing; one process each
	Kinds   func() *kinds.Set
	HasGPUs bool   // tasks of kinds that need a GPU can run
	GPUs    string // their indexes, for people
	Slots   int    // that kinds without slots of their own share, for people; 0 if that is not known
	Access  Access
	Assets  Assets
	Log     *slog.Logger // after Open it leaves out the prompts of tasks that run: the worker is to log by it
	Metrics *Metrics

	// Orchestrator is where artifacts go; nil for nowhere.
	Orchestrator *url.URL
	Presigned    bool          // by URLs that it gives, at hosts of Storage
	Storage      egress.Policy // of pre-signed URLs
	Callbacks    egress.Policy // of callback URLs; the orchestrator's own are always allowed
	Secret       []byte        // signs events; see [ParseSecret]

	Drain     time.Duration // what uploads under way have when Run ends
	MaxQueued int           // tasks; more are refused
	MinFree   int64         // bytes of the disk; with less no task is taken or started
	Keep      time.Duration // how long a task is kept that has ended
	MaxBytes  int64         // of all tasks together; the oldest that have ended are deleted first; 0 for no limit

	tokens    atomic.Pointer[[]string]
	tasks     *Tasks
	logs      *taskLogs
	queue     *Queue
	status    *Status
	uploads   *uploads
	callbacks *callbacks
	pauses    *pauses
	paused    *pausedKinds
	clients   []*egress.Client
	making    atomic.Int64 // tasks that are being made
	copying   atomic.Int64 // bytes of assets that are being copied
}

// Open locks the directory and reads what an earlier relay has left. The error wraps [ErrInUse] when another one has it.
func (r *Relay) Open(ctx context.Context) (err error) {
	if err := r.RenewTokens(r.Access.Tokens); err != nil {
		return err
	}
	r.logs = &taskLogs{prompts: map[jobs.ID]*redact.Passage{}}
	r.Log = slog.New(redact.HandlerWith(r.Log.Handler(), r.logs.withoutPrompts))
	if r.tasks, err = openTasks(ctx, r.Dir, r.Log, r.Metrics); err != nil {
		return fmt.Errorf("open %s: %w", r.Dir, err)
	}
	r.logs.dir = r.tasks.dir
	r.pauses = newPauses(r.Log)
	r.paused = openPaused(r.tasks.dir.path, r.Log)
	r.queue = newQueue(r.tasks, r.logs)
	r.queue.paused = func(kind jobs.Kind) bool {
		return !r.runs(r.Kinds().Get(kind)) || r.pauses.paused(kind) || r.paused.has(kind)
	}
	r.pauses.over = r.queue.Wake
	var orchestrator called
	if r.Orchestrator != nil {
		p := egress.Only(r.Orchestrator)
		orchestrator = called{&p, r.client(p)}
	}
	r.uploads = newUploads(r, orchestrator)
	r.callbacks = newCallbacks(r, orchestrator)
	r.status = &Status{tasks: r.tasks, log: r.logs, crashes: maxCrashes, uploading: r.uploads.start, ended: r.attemptEnded}
	r.tasks.events = r.callbacks.deliver
	r.tasks.resume(r.uploads.start)
	r.Metrics.watch(r.tasks, func() float64 {
		free, _ := disk.Free(r.Dir)
		return float64(free)
	})
	return nil
}

func (r *Relay) client(p egress.Policy) *egress.Client {
	c := egress.New(p)
	r.clients = append(r.clients, c)
	return c
}

// runs reports whether tasks of a kind can run here. A kind may be gone from its file, or a GPU from the machine, while
// tasks are queued: they wait.
func (r *Relay) runs(k *kinds.Kind) bool { return k != nil && (k.GPUs == 0 || r.HasGPUs) }

// attemptEnded counts an attempt, and pauses its kind when many fail.
func (r *Relay) attemptEnded(kind jobs.Kind, o jobs.Outcome) {
	r.Metrics.attempt(kind, o)
	r.pauses.ended(kind, o)
}

// Close unlocks the directory.
func (r *Relay) Close() error {
	for _, c := range r.clients {
		c.Close()
	}
	return r.tasks.close()
}

// Source is the worker's source of tasks.
func (r *Relay) Source() *Queue { return r.queue }

// Status is where the worker records what becomes of tasks.
func (r *Relay) Status() *Status { return r.status }

// Check returns why no task can be started: for the worker to ask before it leases.
func (r *Relay) Check(context.Context) error {
	free, err := disk.Free(r.Dir)
	if err != nil {
		return fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	}
	if free < r.MinFree {
		return fmt.Errorf("%w: %d bytes are free on the disk of %s, and %d are wanted", jobs.ErrUnavailable, free, r.Dir, r.MinFree)
	}
	return nil
}

// Run delivers artifacts and events, and deletes old tasks, until ctx ends. It owns every goroutine it starts.
func (r *Relay) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { r.uploads.Run(ctx) })
	running.Go(func() { r.callbacks.Run(ctx) })
	running.Go(func() {
		for {
			r.collect(ctx)
			if jobs.Sleep(ctx, collectEvery) != nil {
				return
			}
		}
	})
	running.Wait()
	r.pauses.stop()
}
