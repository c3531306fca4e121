package operations

import (
	"context"
	"fmt"
	"strings"

	"github.com/batchfleet/batchfleet/jobapi"
	"github.com/batchfleet/batchfleet/jobapi/engine"
	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/pubsub"
)

// start makes a fleet ready: it checks or creates what the fleet needs, and lets
// workers lease.
type start struct {
	jobapi.Options
	d Deps
}

// Check implements [engine.Request].
func (s *start) Check() error { return nil }

// Echo implements [engine.Request].
func (s *start) Echo() any { return s.Options }

// Steps implements [engine.Request].
func (s *start) Steps() []engine.Step {
	probe := engine.Step{Name: "storage", Description: "write, read back and delete an object", Run: s.probeStorage}
	if s.d.Storage == nil {
		probe.AlreadyDone = never(noStorage)
	}
	return []engine.Step{
		{Name: "redis", Description: "see that Redis answers and takes writes", Run: s.redis},
		{Name: "topic", AlreadyDone: s.topicsThere, Description: "create the topics that are missing", Run: s.createTopics},
		{Name: "subscription", AlreadyDone: s.subscriptionsThere, Description: "create the subscriptions that are missing", Run: s.createSubscriptions},
		probe,
		{Name: "queue", AlreadyDone: s.registered, Description: "note in Redis which queues the fleet has", Run: s.register},
		{Name: "leasing", AlreadyDone: s.leasing, Description: "let workers lease jobs again", Run: s.lease},
	}
}

// never is why a step has nothing to do on this server.
func never(why string) func(context.Context) (string, bool, error) {
	return func(context.Context) (string, bool, error) { return why, true, nil }
}

// redis writes a key that ends by itself, so it is not for a plan.
func (s *start) redis(ctx context.Context, _ engine.Run) (string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if s.d.Status != nil {
		if err := s.d.Status.Check(ctx); err != nil {
			return "", err
		}
	}
	if s.d.Queue != nil {
		if err := s.d.Queue.Check(ctx); err != nil {
			return "", err
		}
	}
	return "Redis answers and takes writes", nil
}

func (s *start) topicsThere(ctx context.Context) (string, bool, error) {
	if s.d.PubSub == nil {
		return noPubSub, true, nil
	}
	var names []string
	for _, q := range s.d.Names.queues() {
		f, err := s.d.PubSub.Topic(ctx, q.Topic)
		if err != nil || f != pubsub.Present {
			return "", false, err
		}
		names = append(names, q.Topic)
	}
	return "there already: " + strings.Join(names, ", "), true, nil
}

func (s *start) createTopics(ctx context.Context, _ engine.Run) (string, error) {
	var made []string
	for _, q := range s.d.Names.queues() {
		f, err := s.d.PubSub.Topic(ctx, q.Topic)
		created := false
		if err == nil && f != pubsub.Present {
			created, err = s.d.PubSub.CreateTopic(ctx, q.Topic)
		}
		if err != nil {
			return "", err
		}
		if created {
			made = append(made, q.Topic)
		}
	}
	if len(made) == 0 { // another server was quicker, or this account may not look
		return "all topics are there", nil
	}
	return "created " + strings.Join(made, ", "), nil
}

// lookAt says what there is of a subscription: absent, present, hidden, and in what
// it differs from what it should be. One of another topic is an error: jobs that
// are submitted would not come to it.
func (s *start) lookAt(ctx context.Context, q Queue) (f pubsub.Found, differs string, err error) {
	f, topic, deadline, err := s.d.PubSub.Subscription(ctx, q.Subscription)
	switch {
	case err != nil || f != pubsub.Present:
		return f, "", err
	case topic != q.Topic:
		return f, "", &engine.Failure{
			Code:    "SUBSCRIPTION_MISMATCH",
			Details: map[string]any{"subscription": q.Subscription, "topic": topic, "want": q.Topic},
			Err:     fmt.Errorf("subscription %s is of topic %s, not of %s: delete it, or name another one", q.Subscription, topic, q.Topic),
		}
	case deadline != s.d.Names.AckDeadline:
		// Workers extend their leases whatever they began with.
		differs = fmt.Sprintf("%s has an ack deadline of %s, a new one would have %s", q.Subscription, deadline, s.d.Names.AckDeadline)
	}
	return f, differs, nil
}

func (s *start) subscriptionsThere(ctx context.Context) (string, bool, error) {
	if s.d.PubSub == nil {
		return noPubSub, true, nil
	}
	var said []string
	for _, q := range s.d.Names.queues() {
		f, differs, err := s.lookAt(ctx, q)
		if err != nil || f != pubsub.Present {
			return "", false, err
		}
		if differs == "" {
			differs = q.Subscription
		}
		said = append(said, differs)
	}
	return "there already: " + strings.Join(said, ", "), true, nil
}

func (s *start) createSubscriptions(ctx context.Context, r engine.Run) (string, error) {
	var made []string
	for _, q := range s.d.Names.queues() {
		f, _, err := s.lookAt(ctx, q)
		created := false
		if err == nil && f != pubsub.Present {
			created, err = s.d.PubSub.CreateSubscription(ctx, q.Subscription, q.Topic, s.d.Names.AckDeadline)
		}
		if err != nil {
			return "", err
		}
		if created {
			made = append(made, q.Subscription)
		}
		// Also of what another server has created just now.
		_, differs, err := s.lookAt(ctx, q)
		if err != nil {
			return "", err
		}
		if differs != "" {
			r.Logf("%s", differs)
		}
	}
	if len(made) == 0 {
		return "all subscriptions are there", nil
	}
	return "created " + strings.Join(made, ", "), nil
}

func (s *start) registered(ctx context.Context) (string, bool, error) {
	if s.d.Status == nil {
		return noFleet, true, nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	on, err := s.d.Status.Queues(ctx)
	if err != nil {
		return "", false, err
	}
	for name, q := range s.d.Names.records() {
		if on[name] != q {
			return "", false, nil
		}
	}
	return "on record already", true, nil
}

func (s *start) register(ctx context.Context, r engine.Run) (string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for name, q := range s.d.Names.records() {
		changed, err := s.d.Status.RegisterQueue(ctx, name, q)
		if err != nil {
			return "", err
		}
		if changed {
			r.Logf("queue %s: subscription %s of topic %s", name, q.Subscription, q.Topic)
		}
	}
	return jobs.Count(len(s.d.Names.records()), "queue") + " on record", nil
}

func (s *start) leasing(ctx context.Context) (string, bool, error) {
	return leasingIs(ctx, s.d, true, "workers may lease jobs already")
}

func (s *start) lease(ctx context.Context, r engine.Run) (string, error) {
	if err := setLeasing(ctx, s.d, r, true); err != nil {
		return "", err
	}
	return "workers may lease jobs", nil
}

// leasingIs returns said and true if the workers of the fleet and of the gateway
// are all as wanted: may lease jobs, or may not.
func leasingIs(ctx context.Context, d Deps, want bool, said string) (string, bool, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if d.Status != nil {
		since, err := d.Status.Draining(ctx)
		if err != nil || (since == "") != want {
			return "", false, err
		}
	}
	if d.Queue != nil {
		ops, err := d.Queue.Ops(ctx)
		if err != nil || ops.Dequeue != want {
			return "", false, err
		}
	}
	return said, true, nil
}

// setLeasing says whether workers may lease jobs, first to the fleet.
func setLeasing(ctx context.Context, d Deps, r engine.Run, on bool) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	word := map[bool]string{true: "on", false: "off"}[on]
	if d.Status != nil {
		changed, err := d.Status.SetDraining(ctx, !on)
		if err != nil {
			return err
		}
		if changed {
			r.Logf("leasing of the fleet is %s", word)
		}
	}
	if d.Queue != nil {
		if _, err := d.Queue.SetOps(ctx, nil, &on); err != nil {
			return err
		}
		r.Logf("leasing of the gateway is %s", word)
	}
	return nil
}
