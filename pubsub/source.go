package pubsub

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/batch"
	"github.com/batchfleet/batchfleet/jobs"
)

// Source is a [worker.Source] over one Pub/Sub subscription, by unary pulls over one
// connection, which ask for as many messages as calls of Lease wait.
type Source struct {
	client       *apiv1.SubscriptionAdminClient
	subscription string // projects/P/subscriptions/S
	rules        Rules
	log          *slog.Logger
	grace        time.Duration // replyGrace; tests have more
	asked        atomic.Int64  // when the deadline was last asked for, in seconds since 1970
	deadline     atomic.Int64  // the subscription's ack deadline in nanoseconds; 0 if it may not be asked

	pulls pulls
	acks  batch.Group[string, none]
	nacks batch.Group[nack, none]
	calls *sync.WaitGroup // pulls under way, of all sources on the connection
}

// maxAckDeadline is the longest lease Pub/Sub gives.
const maxAckDeadline = 600 * time.Second

// OpenSource returns a source over the subscription with the given full name.
// It does not wait for the service. Close it after use.
func OpenSource(ctx context.Context, subscription string, rules Rules, log *slog.Logger, opts ...option.ClientOption) (*Source, error) {
	client, err := apiv1.NewSubscriptionAdminClient(ctx, opts...)
	if err != nil {
		return nil, cannotOpen(err)
	}
	// Retries are the worker's: it knows what it holds and for how long.
	client.CallOptions = &apiv1.SubscriptionAdminCallOptions{}
	return newSource(client, new(sync.WaitGroup), subscription, rules, log, replyGrace), nil
}

// Beside returns a source over another subscription on the same connection, which
// stays the first one's to close.
func (s *Source) Beside(subscription string) *Source {
	return newSource(s.client, s.calls, subscription, s.rules, s.log, s.grace)
}

func newSource(client *apiv1.SubscriptionAdminClient, calls *sync.WaitGroup, subscription string, rules Rules, log *slog.Logger, grace time.Duration) *Source {
	s := &Source{client: client, calls: calls, subscription: subscription, rules: rules, log: log, grace: grace}
	s.pulls.source = s
	s.acks = batch.Group[string, none]{Send: s.ackAll, Max: maxAckIDs, Slow: slowSettle}
	s.nacks = batch.Group[nack, none]{Send: s.nackAll, Max: maxAckIDs, Slow: slowSettle}
	return s
}

// Close waits until messages that came too late for their slots are handed back, and closes the
// connection. It comes after the last call of Lease.
func (s *Source) Close() error {
	s.calls.Wait()
	return s.client.Close()
}

// Check reports the subscription's ack deadline, or 0 if the subscription may
// be pulled from but not looked at. While it is unknown, every lease is extended
// as soon as it is taken.
func (s *Source) Check(ctx context.Context) (ackDeadline time.Duration, err error) {
	sub, err := lookAt(ctx, s.client, s.subscription)
	if err != nil {
		return 0, err
	}
	ackDeadline = time.Duration(sub.GetAckDeadlineSeconds()) * time.Second
	s.deadline.Store(int64(ackDeadline))
	return ackDeadline, nil
}

// Probe implements [worker.Prober].
func (s *Source) Probe(ctx context.Context) error {
	_, err := s.Check(ctx)
	return err
}

// Lease implements [worker.Source]. A lease may come back although ctx has ended, if
// its reply was on the way already.
func (s *Source) Lease(ctx context.Context) (jobs.Lease, error) {
	s.learn(ctx)
	if ctx.Err() != nil {
		return jobs.Lease{}, context.Cause(ctx)
	}
	message, err := s.pulls.next(ctx)
	if err != nil {
		return jobs.Lease{}, err
	}
	m := message.GetMessage()
	lease := jobs.Lease{
		ID: message.GetAckId(), Until: time.Now().Add(time.Duration(s.deadline.Load())), Delivery: int(message.GetDeliveryAttempt()),
		Raw: jobs.Raw{ID: m.GetMessageId(), Queue: s.subscription, Ack: message.GetAckId(), Data: m.GetData(), Attributes: m.GetAttributes()},
	}
	lease.Job, lease.Invalid = s.rules.decode(lease.Raw.Data, lease.Raw.Attributes)
	return lease, nil
}

// learn asks for the ack deadline while it is unknown, at most once a minute.
func (s *Source) learn(ctx context.Context) {
	now := time.Now().Unix()
	if last := s.asked.Load(); s.deadline.Load() != 0 || now-last < 60 || !s.asked.CompareAndSwap(last, now) {
		return
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.Check(call); err != nil {
		s.log.DebugContext(ctx, "ack deadline unknown, leases are extended at once", "err", err)
	}
}
