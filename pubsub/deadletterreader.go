package pubsub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// DeadLetterReader holds dead letters taken from a Pub/Sub subscription, for as long
// as somebody looks at them. What it holds nobody else sees; what it neither
// drops nor hands back, because its process was killed, others see again after
// letterLease. Its methods may be called concurrently.
type DeadLetterReader struct {
	client       *apiv1.SubscriptionAdminClient
	subscription string // projects/P/subscriptions/S
	rules        Rules
	grace        time.Duration // replyGrace; tests have more

	mu   sync.Mutex
	held map[string]struct{} // leases
}

const (
	letterLease  = 30 * time.Second
	letterExtend = 10 * time.Second // a third: two calls may fail
	letterBatch  = 100              // letters in one answer
	// maxAckIDs is how many leases one call may name: Google bounds the request
	// at 512 KiB, which its own client reads as 2500.
	maxAckIDs = 1000
)

// MaxDeadLetters and maxLetterBytes bound what a box holds.
const (
	MaxDeadLetters = 10_000
	maxLetterBytes = 256 << 20
)

// OpenDeadLetterReader returns a box, empty, over the subscription with the given full
// name. It does not wait for the service. Close it after use.
func OpenDeadLetterReader(ctx context.Context, subscription string, rules Rules, opts ...option.ClientOption) (*DeadLetterReader, error) {
	client, err := apiv1.NewSubscriptionAdminClient(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("open pub/sub: %w", err)
	}
	// A retry would run into the end of our patience, and look like an empty box.
	client.CallOptions = &apiv1.SubscriptionAdminCallOptions{}
	return &DeadLetterReader{client: client, subscription: subscription, rules: rules, grace: replyGrace, held: map[string]struct{}{}}, nil
}

// Fresh returns an empty box over the same subscription and connection, which
// stays the first one's to close.
func (b *DeadLetterReader) Fresh() *DeadLetterReader {
	return &DeadLetterReader{client: b.client, subscription: b.subscription, rules: b.rules, grace: b.grace, held: map[string]struct{}{}}
}

// Close closes the connection. Letters still held come back to the
// subscription by themselves; see [DeadLetterReader.HandBack].
func (b *DeadLetterReader) Close() error { return b.client.Close() }

// Check returns the topic whose letters the subscription gets, or none if it may
// not be looked at, and an error if it is not there.
func (b *DeadLetterReader) Check(ctx context.Context) (topic string, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sub, err := b.client.GetSubscription(call, &pubsubpb.GetSubscriptionRequest{Subscription: b.subscription})
	if status.Code(unwrapStatus(err)) == codes.PermissionDenied {
		return "", nil // the subscriber role may pull but not look
	}
	if err != nil {
		return "", translate("look at subscription "+b.subscription, err)
	}
	return sub.GetTopic(), nil
}

// Collect takes letters until none has come for the time of patience, and
// reports whether it has stopped for being full before. When it fails, what came
// before is held.
func (b *DeadLetterReader) Collect(ctx context.Context, patience time.Duration) (letters []DeadLetter, full bool, err error) {
	if _, err := b.Check(ctx); err != nil {
		return nil, false, err // a pull would look as if nothing were there
	}
	for size := 0; ; {
		if len(letters)+letterBatch > MaxDeadLetters || size > maxLetterBytes {
			return letters, true, nil
		}
		got, err := b.pull(ctx, patience)
		if err != nil || len(got) == 0 {
			return letters, false, err
		}
		for _, m := range got {
			l := b.rules.letter(m.GetMessage())
			l.lease = m.GetAckId()
			letters = append(letters, l)
			size += len(l.Data)
		}
		// The subscription's own deadline may be too short for what is to come,
		// and is too long to wait for if this process is killed.
		if err := b.modify(ctx, letterLease, leasesOf(letters[len(letters)-len(got):])); err != nil {
			return letters, false, err
		}
	}
}

// pull returns the letters that are there, or none when none has come for the
// time of patience.
func (b *DeadLetterReader) pull(ctx context.Context, patience time.Duration) ([]*pubsubpb.ReceivedMessage, error) {
	call, cancel := pulling(ctx, patience, b.grace)
	defer cancel()
	reply, err := b.client.Pull(call, &pubsubpb.PullRequest{Subscription: b.subscription, MaxMessages: letterBatch})
	got := reply.GetReceivedMessages()
	b.mu.Lock()
	for _, m := range got {
		b.held[m.GetAckId()] = struct{}{}
	}
	b.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && isDeadline(err):
		return nil, nil
	case err != nil:
		return nil, translate("pull from "+b.subscription, err)
	}
	return got, nil
}

func leasesOf(letters []DeadLetter) []string {
	ids := make([]string, len(letters))
	for i, l := range letters {
		ids[i] = l.lease
	}
	return ids
}

// Keep keeps what the box holds until ctx ends. A letter that it cannot keep
// comes back to the subscription, which is no loss.
func (b *DeadLetterReader) Keep(ctx context.Context) {
	tick := time.NewTicker(letterExtend)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = b.modify(ctx, letterLease, b.ids()) // the next tick tries again
		}
	}
}

func (b *DeadLetterReader) ids() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.held))
}

// Drop ends letters for good.
func (b *DeadLetterReader) Drop(ctx context.Context, letters ...DeadLetter) error {
	return each(leasesOf(letters), func(ids []string) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err := b.client.Acknowledge(call, &pubsubpb.AcknowledgeRequest{Subscription: b.subscription, AckIds: ids}); err != nil {
			return translate("drop dead letters", err)
		}
		b.forget(ids)
		return nil
	})
}

// HandBack ends the hold on letters, so that others see them at once.
func (b *DeadLetterReader) HandBack(ctx context.Context, letters ...DeadLetter) error {
	return b.handBack(ctx, leasesOf(letters))
}

// HandBackAll ends the hold on all letters.
func (b *DeadLetterReader) HandBackAll(ctx context.Context) error { return b.handBack(ctx, b.ids()) }

func (b *DeadLetterReader) handBack(ctx context.Context, ids []string) error {
	b.forget(ids) // first: they must not be kept any longer
	return b.modify(ctx, 0, ids)
}

func (b *DeadLetterReader) forget(ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		delete(b.held, id)
	}
}

func (b *DeadLetterReader) modify(ctx context.Context, d time.Duration, leases []string) error {
	return each(leases, func(ids []string) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err := b.client.ModifyAckDeadline(call, &pubsubpb.ModifyAckDeadlineRequest{
			Subscription: b.subscription, AckIds: ids, AckDeadlineSeconds: int32(d / time.Second), //nolint:gosec // 0 or letterLease
		})
		lost := permanentFailures(err)
		b.forget(slices.Collect(maps.Keys(lost)))
		if err != nil && len(lost) == 0 {
			return translate("keep dead letters", err)
		}
		return nil // those that are lost have come back already
	})
}

// each calls f for parts of ids that one call may name.
func each(ids []string, f func([]string) error) error {
	for part := range slices.Chunk(ids, maxAckIDs) {
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}
