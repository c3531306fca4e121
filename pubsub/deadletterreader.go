package pubsub

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
)

// DeadLetterReader leases dead letters from a Pub/Sub subscription, so that no other
// reader gets them. If its process is killed, the subscription delivers them again
// after deadLetterLease. Its methods may be called concurrently.
type DeadLetterReader struct {
	client       *apiv1.SubscriptionAdminClient
	subscription string // projects/P/subscriptions/S
	rules        Rules
	grace        time.Duration // replyGrace; tests have more

	mu   sync.Mutex
	held map[string]struct{} // leases
}

const (
	deadLetterLease  = 30 * time.Second
	deadLetterExtend = 10 * time.Second // a third: two calls may fail
	deadLetterBatch  = 100              // in one answer
	// maxAckIDs is how many leases one call may name: Google bounds the request
	// at 512 KiB, which its own client reads as 2500.
	maxAckIDs = 1000
)

// MaxDeadLetters and maxDeadLetterBytes bound what a reader holds.
const (
	MaxDeadLetters     = 10_000
	maxDeadLetterBytes = 256 << 20
)

// OpenDeadLetterReader returns a reader of the subscription with the given full name.
// It holds nothing yet. It does not wait for the service. Close it after use.
func OpenDeadLetterReader(ctx context.Context, subscription string, rules Rules, opts ...option.ClientOption) (*DeadLetterReader, error) {
	client, err := apiv1.NewSubscriptionAdminClient(ctx, opts...)
	if err != nil {
		return nil, cannotOpen(err)
	}
	// A retry would last until patience ends, which looks as if nothing were there.
	client.CallOptions = &apiv1.SubscriptionAdminCallOptions{}
	return &DeadLetterReader{client: client, subscription: subscription, rules: rules, grace: replyGrace, held: map[string]struct{}{}}, nil
}

// Fresh returns a reader that holds nothing, of the same subscription. It shares the
// connection, which only the first reader closes.
func (r *DeadLetterReader) Fresh() *DeadLetterReader {
	return &DeadLetterReader{client: r.client, subscription: r.subscription, rules: r.rules, grace: r.grace, held: map[string]struct{}{}}
}

// Close closes the connection. Dead letters still held return to the subscription
// when their leases end; see [DeadLetterReader.HandBack].
func (r *DeadLetterReader) Close() error { return r.client.Close() }

// Check returns the topic of the subscription, or none if it may not be looked at,
// and an error if the subscription does not exist.
func (r *DeadLetterReader) Check(ctx context.Context) (topic string, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sub, err := lookAt(call, r.client, r.subscription)
	return sub.GetTopic(), err
}

// Collect takes dead letters until none has come for patience. full reports that it
// stopped earlier, at its limits. When it fails, what came before is held.
func (r *DeadLetterReader) Collect(ctx context.Context, patience time.Duration) (deadLetters []DeadLetter, full bool, err error) {
	if _, err := r.Check(ctx); err != nil {
		return nil, false, err // a pull would look as if nothing were there
	}
	for size := 0; ; {
		if len(deadLetters)+deadLetterBatch > MaxDeadLetters || size > maxDeadLetterBytes {
			return deadLetters, true, nil
		}
		got, err := r.pull(ctx, patience)
		if err != nil || len(got) == 0 {
			return deadLetters, false, err
		}
		for _, m := range got {
			l := r.rules.decodeDeadLetter(m.GetMessage())
			l.lease = m.GetAckId()
			deadLetters = append(deadLetters, l)
			size += len(l.Data)
		}
		// The subscription's own deadline may be too short for a session, and too
		// long for others to wait if this process is killed.
		if err := r.modify(ctx, deadLetterLease, leasesOf(deadLetters[len(deadLetters)-len(got):])); err != nil {
			return deadLetters, false, err
		}
	}
}

// pulling returns a context for a pull of at most limit. It outlives ctx by
// grace.
func pulling(ctx context.Context, limit, grace time.Duration) (context.Context, context.CancelFunc) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return call, func() { stop(); cancel() }
}

// pull returns up to one batch of messages, or none when none has come for patience.
func (r *DeadLetterReader) pull(ctx context.Context, patience time.Duration) ([]*pubsubpb.ReceivedMessage, error) {
	call, cancel := pulling(ctx, patience, r.grace)
	defer cancel()
	reply, err := r.client.Pull(call, &pubsubpb.PullRequest{Subscription: r.subscription, MaxMessages: deadLetterBatch})
	got := reply.GetReceivedMessages()
	r.mu.Lock()
	for _, m := range got {
		r.held[m.GetAckId()] = struct{}{}
	}
	r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && isDeadline(err):
		return nil, nil
	case err != nil:
		return nil, translate("pull from "+r.subscription, err)
	}
	return got, nil
}

func leasesOf(deadLetters []DeadLetter) []string {
	ids := make([]string, len(deadLetters))
	for i, l := range deadLetters {
		ids[i] = l.lease
	}
	return ids
}

// Keep extends the leases of what the reader holds until ctx ends. A dead letter
// whose lease cannot be extended returns to the subscription, which is no loss.
func (r *DeadLetterReader) Keep(ctx context.Context) {
	tick := time.NewTicker(deadLetterExtend)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = r.modify(ctx, deadLetterLease, r.ids()) // the next tick tries again
		}
	}
}

func (r *DeadLetterReader) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.held))
}

// Drop deletes dead letters for good.
func (r *DeadLetterReader) Drop(ctx context.Context, deadLetters ...DeadLetter) error {
	return each(leasesOf(deadLetters), func(ids []string) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err := r.client.Acknowledge(call, &pubsubpb.AcknowledgeRequest{Subscription: r.subscription, AckIds: ids}); err != nil {
			return translate("drop dead letters", err)
		}
		r.forget(ids)
		return nil
	})
}

// HandBack returns dead letters to the subscription: others see them at once.
func (r *DeadLetterReader) HandBack(ctx context.Context, deadLetters ...DeadLetter) error {
	return r.handBack(ctx, leasesOf(deadLetters))
}

// HandBackAll returns all dead letters that the reader holds.
func (r *DeadLetterReader) HandBackAll(ctx context.Context) error { return r.handBack(ctx, r.ids()) }

func (r *DeadLetterReader) handBack(ctx context.Context, ids []string) error {
	r.forget(ids) // first: their leases must not be extended any longer
	return r.modify(ctx, 0, ids)
}

func (r *DeadLetterReader) forget(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.held, id)
	}
}

func (r *DeadLetterReader) modify(ctx context.Context, d time.Duration, leases []string) error {
	return each(leases, func(ids []string) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err := r.client.ModifyAckDeadline(call, &pubsubpb.ModifyAckDeadlineRequest{
			Subscription: r.subscription, AckIds: ids, AckDeadlineSeconds: int32(d / time.Second), //nolint:gosec // 0 or deadLetterLease
		})
		lost := permanentFailures(err)
		r.forget(slices.Collect(maps.Keys(lost)))
		if err != nil && len(lost) == 0 {
			return translate("keep dead letters", err)
		}
		return nil // a lost one has returned to the subscription already
	})
}

// each calls f with parts of ids, each no longer than one call may name.
func each(ids []string, f func([]string) error) error {
	for part := range slices.Chunk(ids, maxAckIDs) {
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}
