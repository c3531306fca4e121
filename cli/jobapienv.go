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
	MaxUtils     int              `envconfig:"JOB_API_MAX_RUNNING_UTILS" default:"4"`
	MaxLoad      int              `envconfig:"JOB_API_MAX_LOAD" default:"1"`           // of them, how many may be submit-batch
	MaxQueued    int              `envconfig:"JOB_API_MAX_QUEUED" default:"0"`         // of utils, that wait for a place
	Retain       int              `envconfig:"JOB_API_RETAIN" default:"1000"`          // ended jobs that are kept, of each scope
	LogBudget    int64            `envconfig:"JOB_API_LOG_BUDGET" default:"268435456"` // bytes of all logs together
	MaxListeners int              `envconfig:"JOB_API_MAX_LISTENERS" default:"10000"`  // requests that follow a job or wait for one
	MaxBatch     int              `envconfig:"JOB_API_MAX_BATCH_SIZE" default:"1000"`  // objects of one submit-batch
	MaxParallel  int              `envconfig:"JOB_API_MAX_CONCURRENCY" default:"20"`   // its calls at once
	Timeout      settings.Seconds `envconfig:"JOB_API_TIMEOUT" default:"24h"`          // of jobs whose request does not say
}

// Check returns what is wrong with the values.
func (e *JobAPIEnv) Check() []error {
	return settings.Compact([]error{
		settings.Within("JOB_API_MAX_RUNNING_UTILS", int64(e.MaxUtils), 1, 100),
		settings.Within("JOB_API_MAX_LOAD", int64(e.MaxLoad), 1, 2),
		settings.Within("JOB_API_MAX_QUEUED", int64(e.MaxQueued), 0, 1000),
		settings.Within("JOB_API_RETAIN", int64(e.Retain), 1, 100_000),
		settings.Within("JOB_API_LOG_BUDGET", e.LogBudget, 8<<20, 64<<30),
		settings.Within("JOB_API_MAX_LISTENERS", int64(e.MaxListeners), 1, 100_000),
		settings.Within("JOB_API_MAX_BATCH_SIZE", int64(e.MaxBatch), 1, 1000),
		settings.Within("JOB_API_MAX_CONCURRENCY", int64(e.MaxParallel), 1, 20),
		settings.Span("JOB_API_TIMEOUT", e.Timeout, settings.Second, settings.Day),
	})
}

// FleetEnv is the fleet that the Job API of a gateway looks after. There is none
// unless GCP_PROJECT_ID is set; what else is set is not looked at then.
type FleetEnv struct {
	StorageEnv
	PubSubEnv
	LeaseTTL settings.Seconds `envconfig:"FLEET_LEASE_TTL" default:"600s"` // LEASE_TTL of its workers; a gateway's own is another
}

// Check returns what is wrong with the values, if there is a fleet.
func (e *FleetEnv) Check() []error {
	if e.Project == "" {
		return nil
	}
	return settings.Compact(e.StorageEnv.Check(), e.PubSubEnv.Check(), []error{settings.Span("FLEET_LEASE_TTL", e.LeaseTTL, 10*settings.Second, 600*settings.Second)})
}

// openFleet fills in what operations act on beside Redis. What cannot be opened
// is logged and left out: nobody needs it to hand out jobs. Nothing is sent yet.
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
	opts, err := pubsub.Options(e.Emulator)
	note(err)
	if admin, err := pubsub.OpenAdmin(ctx, opts...); note(err) {
		d.PubSub, opened = admin, append(opened, admin)
	}
	if publisher, err := all.openPublisher(ctx); note(err) {
		d.Publish, opened = publisher, append(opened, publisher)
	}
	if names.Dead.Subscription != "" {
		if box, err := pubsub.OpenDeadLetterReader(ctx, names.Dead.Subscription, all.rules(""), opts...); note(err) {
			d.DeadLetters, opened = box, append(opened, box)
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		log.WarnContext(ctx, "the Job API cannot do all that GCP_PROJECT_ID asks for", "err", err)
	}
	return opened
}

// operationNames returns the full names of the fleet's queues.
func (e *FleetEnv) operationNames() (n operations.Names, err error) {
	n.Kinds = []string{"pdf", "mock"}
	var wrong [5]error
	n.Jobs.Topic, wrong[0] = pubsub.TopicName("PUBSUB_TOPIC", e.Project, e.Topic)
	n.Jobs.Subscription, wrong[1] = pubsub.SubscriptionName("PUBSUB_SUBSCRIPTION", e.Project, e.Subscription)
	if n.Priority.Subscription, wrong[2] = e.prioritySubscription(); n.Priority.Subscription != "" {
		n.Priority.Topic = strings.Replace(n.Priority.Subscription, "/subscriptions/", "/topics/", 1)
	}
	n.Dead.Topic, wrong[3] = e.deadTopic()
	n.Dead.Subscription, wrong[4] = e.deadSubscription()
	return n, cmp.Or(wrong[:]...)
}
