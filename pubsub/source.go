package pubsub

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"

	"github.com/batchfleet/batchfleet/jobs"
)

// Source is a [worker.Source] over one Pub/Sub subscription, by unary pulls of one
// message each over one connection.
type Source struct {
	client       *apiv1.SubscriptionAdminClient
	subscription string // projects/P/subscriptions/S
	rules        Rules
	log          *slog.Logger
	grace        time.Duration // replyGrace; tests have more
	asked        atomic.Int64  // when the deadline was last asked for, in seconds since 1970
	deadline     atomic.Int64  // the subscription's ack deadline in nanoseconds; 0 if it may not be asked
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
	return &Source{client: client, subscription: subscription, rules: rules, log: log, grace: replyGrace}, nil
}

// Beside returns a source over another subscription on the same connection, which
// stays the first one's to close.
func (s *Source) Beside(subscription string) *Source {
	return &Source{client: s.client, subscription: subscription, rules: s.rules, log: s.log, grace: s.grace}
}

// Close closes the connection.
func (s *Source) Close() error { return s.client.Close() }

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

// replyGrace is how long a pull may still be answered after it was called off.
// If it ended at once, a message whose reply is on its way would stay leased, and
// unused, until its ack deadline.
const replyGrace = 200 * time.Millisecond

// pulling returns a context for a pull of at most limit. It outlives ctx by
// grace.
func pulling(ctx context.Context, limit, grace time.Duration) (context.Context, context.CancelFunc) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return call, func() { stop(); cancel() }
}

// Lease implements [worker.Source]. A lease may come back although ctx has ended, if
// its reply was on the way already.
func (s *Source) Lease(ctx context.Context) (jobs.Lease, error) {
	s.learn(ctx)
	for ctx.Err() == nil {
		began := time.Now()
		message, err := s.pull(ctx)
		if message == nil {
			if err != nil {
				return jobs.Lease{}, err
			}
			// A server that answers empty at once must not make us spin.
			if wait := time.Second - time.Since(began); wait > 0 {
				if err := jobs.Sleep(ctx, wait); err != nil {
					return jobs.Lease{}, err
				}
			}
			continue
		}
		m := message.GetMessage()
		lease := jobs.Lease{
			ID: message.GetAckId(), Until: time.Now().Add(time.Duration(s.deadline.Load())), Delivery: int(message.GetDeliveryAttempt()),
			Raw: jobs.Raw{ID: m.GetMessageId(), Queue: s.subscription, Ack: message.GetAckId(), Data: m.GetData(), Attributes: m.GetAttributes()},
		}
		lease.Job, lease.Invalid = s.rules.decode(lease.Raw.Data, lease.Raw.Attributes)
		return lease, nil
	}
	return jobs.Lease{}, context.Cause(ctx)
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

// pull asks for one message and returns nil without an error when there is none.
func (s *Source) pull(ctx context.Context) (*pubsubpb.ReceivedMessage, error) {
	// Long polls: each deadline that strikes while a reply is on its way orphans
	// a message for a whole lease. At random, so that a fleet does not pull in step.
	call, cancel := pulling(ctx, 60*time.Second+rand.N(30*time.Second), s.grace)
	defer cancel()
	reply, err := s.client.Pull(call, &pubsubpb.PullRequest{Subscription: s.subscription, MaxMessages: 1})
	if err != nil {
		if isDeadline(err) || ctx.Err() != nil {
			return nil, nil //nolint:nilnil // no message is not an error
		}
		return nil, translate("pull from "+s.subscription, err)
	}
	if len(reply.GetReceivedMessages()) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	return reply.GetReceivedMessages()[0], nil
}

// Extend implements [worker.Source].
func (s *Source) Extend(ctx context.Context, leases []jobs.Lease, ttl time.Duration) (map[string]error, error) {
	ids := make([]string, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	return s.modify(ctx, ids, ttl)
}

// Ack implements [worker.Source].
func (s *Source) Ack(ctx context.Context, lease jobs.Lease) error {
	err := s.client.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: s.subscription, AckIds: []string{lease.ID}})
	if err == nil || permanentFailures(err)[lease.ID] != nil {
		return nil //nolint:nilerr // a lost lease needs no ack
	}
	return translate("ack", err)
}

// Nack implements [worker.Source]. Pub/Sub counts in whole seconds, up to 600.
func (s *Source) Nack(ctx context.Context, lease jobs.Lease, delay time.Duration) error {
	_, err := s.modify(ctx, []string{lease.ID}, delay)
	return err
}

// HandBack implements [worker.HandBacker]. An ack id belongs to the subscription and not to the
// connection over which it came.
func (s *Source) HandBack(ctx context.Context, queue string, acks []string) error {
	err := s.client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: queue, AckIds: acks})
	if err == nil || len(permanentFailures(err)) == len(acks) {
		return nil // a lost lease needs no handing back
	}
	return translate("hand back leases of "+queue, err)
}

func (s *Source) modify(ctx context.Context, ids []string, d time.Duration) (map[string]error, error) {
	d = max(0, min(d, maxAckDeadline))
	secs := int32((d + time.Second - 1) / time.Second) //nolint:gosec // at most 600
	err := s.client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: s.subscription, AckIds: ids, AckDeadlineSeconds: secs,
	})
	if err == nil {
		return nil, nil
	}
	lost := permanentFailures(err)
	if len(lost) == len(ids) {
		return lost, nil
	}
	return lost, translate("modify ack deadline", err)
}
