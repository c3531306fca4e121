package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/batchfleet/batchfleet/cli/settings"
	"github.com/batchfleet/batchfleet/operations"
	"github.com/batchfleet/batchfleet/pubsub"
)

// JobAPIEnv are the limits of the Job API.
type JobAPIEnv struct {
	MaxUtils     int              `envconfig:"JOB_API_MAX_RUNNING_UTILS" default:"4" range:"1,100" doc:"jobs of scope utils at once"`
	MaxLoad      int              `envconfig:"JOB_API_MAX_LOAD" default:"1" range:"1,2" doc:"of them, how many may be submit-batch"`
	MaxQueued    int              `envconfig:"JOB_API_MAX_QUEUED" default:"0" range:"0,1000" doc:"further jobs of utils that wait for their start; others are refused"`
	Retain       int              `envconfig:"JOB_API_RETAIN" default:"1000" range:"1,100000" doc:"ended jobs that system and utils keep each"`
	LogBudget    int64            `envconfig:"JOB_API_LOG_BUDGET" default:"268435456" range:"8388608,68719476736" doc:"bytes of all their logs together"`
	MaxListeners int              `envconfig:"JOB_API_MAX_LISTENERS" default:"10000" range:"1,100000" doc:"requests that follow a job or wait for one"`
	MaxBatch     int              `envconfig:"JOB_API_MAX_BATCH_SIZE" default:"1000" range:"1,1000" doc:"objects of one submit-batch"`
	MaxParallel  int              `envconfig:"JOB_API_MAX_CONCURRENCY" default:"20" range:"1,20" doc:"calls at once of one submit-batch"`
	Timeout      settings.Seconds `envconfig:"JOB_API_TIMEOUT" default:"24h" range:"1s,24h0m0s" doc:"of jobs whose request does not say timeoutMs"`
}

// Check returns what is wrong with the values.
func (e *JobAPIEnv) Check() []error { return settings.Limits(e) }

// FleetEnv is the fleet that the Job API of a gateway looks after. There is none
// unless GCP_PROJECT_ID is set; what else is set is not looked at then.
type FleetEnv struct {
	StorageEnv
	PubSubEnv
	LeaseTTL settings.Seconds `envconfig:"FLEET_LEASE_TTL" default:"600s" range:"10s,10m0s" doc:"LEASE_TTL of the fleet's workers: the ack deadline of subscriptions that run start makes"`
}

// Check returns what is wrong with the values, if there is a fleet.
func (e *FleetEnv) Check() []error {
	if e.Project == "" {
		return nil
	}
	return settings.Compact(e.StorageEnv.Check(), e.PubSubEnv.Check(), settings.Limits(e))
}

// openFleet fills in what operations act on beside Redis. It logs and leaves out what
// it cannot open, because handing out jobs does not need it. Nothing is sent yet.
func (e *FleetEnv) openFleet(ctx context.Context, d *operations.Deps, log *slog.Logger) (opened []io.Closer) {
	if e.Project == "" {
		return nil
	}
	var mistakes []error
	note := func(err error) bool {
		mistakes = append(mistakes, err)
		return err == nil
	}
	all := &ClientEnv{StorageEnv: e.StorageEnv, PubSubEnv: e.PubSubEnv}
	store, err := e.openStorage(ctx)
	if note(err) {
		d.Storage = store
	}
	names, err := e.operationNames()
	note(err)
	names.AckDeadline = e.LeaseTTL.D()
	d.Names = names
	if admin, err := pubsub.OpenAdmin(ctx, e.connection()...); note(err) {
		d.PubSub, opened = admin, append(opened, admin)
	}
	if publisher, err := all.openPublisher(ctx); note(err) {
		d.Publish, opened = publisher, append(opened, publisher)
	}
	if names.Dead.Subscription != "" {
		if reader, err := pubsub.OpenDeadLetterReader(ctx, names.Dead.Subscription, all.rules(""), e.connection()...); note(err) {
			d.DeadLetters, opened = reader, append(opened, reader)
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		log.WarnContext(ctx, "the Job API cannot do all that GCP_PROJECT_ID asks for", "err", err)
	}
	return opened
}

// operationNames returns the full names of the fleet's queues.
func (e *FleetEnv) operationNames() (n operations.Names, err error) {
	q := e.names()
	n.Kinds = []string{"pdf", "mock"}
	n.Jobs.Topic, n.Jobs.Subscription = q.topic.full, q.subscription.full
	n.Priority.Subscription, n.Priority.Topic = q.priority.full, strings.Replace(q.priority.full, "/subscriptions/", "/topics/", 1)
	n.Dead.Topic, n.Dead.Subscription = q.dead.full, q.deadSubscription.full
	return n, cmp.Or(q.topic.err, q.subscription.err, q.priority.err, q.dead.err, q.deadSubscription.err)
}
