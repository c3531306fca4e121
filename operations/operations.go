// Package operations is what the Job API runs in this process: system.start,
// system.drain and system.fsck for the fleet as a whole, utils.submit-batch,
// utils.redrive and utils.purge for many jobs. docs/operations.md describes each
// step by step.
//
// A step can be done again after a crash at any point; nothing is undone when an
// operation fails or is canceled. What this server has no configuration for is
// left out, and says what to set.
package operations

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchfleet/batchfleet/gateway/queue"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
	"github.com/batchfleet/batchfleet/status"
	"github.com/batchfleet/batchfleet/storage"
)

// Deps is what the operations act on. The command has opened it, and closes it
// once the engines have stopped. Nil is what this server has not.
type Deps struct {
	Status      *status.Store            // of the fleet; nil without one
	Queue       *queue.Queue             // of the gateway
	PubSub      *pubsub.Admin            // makes topics and subscriptions
	Publish     *pubsub.Publisher        // to the topic of the fleet
	DeadLetters *pubsub.DeadLetterReader // of the dead letters; nil when there is no subscription to them
	Storage     storage.Store
	Names       Names
	Batch       Batch
}

// Batch are the limits of submit-batch.
type Batch struct {
	MaxSize        int // objects that one request may name, at most 1000
	MaxConcurrency int // of its calls at once, at most 20
}

// Names says which queues the fleet has.
type Names struct {
	Jobs        Queue         // what jobs are submitted to
	Priority    Queue         // zero where priority jobs have none of their own
	Dead        Queue         // zero where dead letters are not kept
	AckDeadline time.Duration // of the subscriptions, 10 s to 600 s
	Kinds       []string      // the kinds of jobs that this binary knows; only these are shown
}

// Queue is a topic and its subscription.
type Queue struct {
	Topic        string // projects/P/topics/T
	Subscription string // projects/P/subscriptions/S
}

// queues returns those that there are. One without a topic is not ours to make: a
// subscription to dead letters may be read where none are kept.
func (n Names) queues() []Queue {
	return slices.DeleteFunc([]Queue{n.Jobs, n.Priority, n.Dead}, func(q Queue) bool { return q.Topic == "" })
}

// records returns what Redis shall know of them, by name.
func (n Names) records() map[string]status.Queue {
	r := map[string]status.Queue{"default": {
		Topic: n.Jobs.Topic, Subscription: n.Jobs.Subscription, DeadTopic: n.Dead.Topic, DeadSubscription: n.Dead.Subscription,
	}}
	if n.Priority != (Queue{}) {
		r["priority"] = status.Queue{Topic: n.Priority.Topic, Subscription: n.Priority.Subscription}
	}
	return r
}

// System returns the operations of scope system.
func System(d Deps) []engine.Operation {
	return []engine.Operation{
		{Name: "start", New: func() engine.Request { return &start{d: d} }},
		{Name: "drain", New: func() engine.Request { return &drain{d: d, notice: status.DrainWithin} }},
		{Name: "fsck", New: func() engine.Request { return &fsck{d: d} }},
	}
}

// Utils returns the operations of scope utils.
func Utils(d Deps) []engine.Operation {
	return []engine.Operation{
		{Name: "submit-batch", Load: true, New: func() engine.Request { return &submitBatch{d: d, retryFor: pollRetryFor} }},
		{Name: "redrive", New: func() engine.Request { return &redrive{d: d, timeout: collectTimeout} }},
		{Name: "purge", New: func() engine.Request { return &purge{d: d} }},
	}
}

// recordRetry is how long a job of a batch is recorded again: over a restart of Redis,
// or one that does not answer for a while.
const recordRetry = 10 * time.Second

// callTimeout bounds one call of something outside.
const callTimeout = 10 * time.Second

// bounded returns a context for one call.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return atMost(ctx, callTimeout)
}

// atMost returns a context for calls of something outside. Its cause says that
// this is what was away: a storage returns the cause when the context ends.
func atMost(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %s: %w", d, jobs.ErrUnavailable))
}

// What to set where something is not configured.
const (
	noPubSub  = "this server has no Pub/Sub: set GCP_PROJECT_ID, and PUBSUB_EMULATOR_HOST for an emulator"
	noFleet   = "this server has no fleet: set GCP_PROJECT_ID"
	noStorage = "this server has no storage: set GCP_PROJECT_ID, STORAGE_TYPE, and LOCAL_STORAGE_PATH, GCS_BUCKET_NAME or S3_BUCKET_NAME"
	noGateway = "this server is no gateway"
	noDead    = "dead letters are not kept: set DEAD_LETTER_TOPIC or DEAD_LETTER_SUBSCRIPTION"
)
