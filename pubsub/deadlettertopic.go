package pubsub

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// DeadLetterTopic is [worker.DeadLetters] over a Pub/Sub topic. Its methods may be
// called concurrently.
type DeadLetterTopic struct {
	pub *Publisher
	// seen is whether the topic existed at the last check and has refused nothing
	// since. Pub/Sub has a quota for such checks, and a fleet checks often.
	seen atomic.Bool
}

// OpenDeadLetterTopic returns the dead letters in the topic with the given full
// name. It does not wait for the service. Close it after use.
func OpenDeadLetterTopic(ctx context.Context, topic string, opts ...option.ClientOption) (*DeadLetterTopic, error) {
	pub, err := OpenPublisher(ctx, topic, Rules{}, opts...)
	if err != nil {
		return nil, err
	}
	// The worker retries, as with leases.
	pub.client.CallOptions.Publish = nil
	return &DeadLetterTopic{pub: pub}, nil
}

// Close closes the connection.
func (t *DeadLetterTopic) Close() error { return t.pub.Close() }

// Add implements [worker.DeadLetters].
func (t *DeadLetterTopic) Add(ctx context.Context, lease jobs.Lease, info worker.DeadLetterInfo) error {
	if _, err := t.pub.send(ctx, deadLetter(lease, info)); err != nil {
		t.seen.Store(false)
		return fmt.Errorf("add the dead letter of message %s: %w", lease.Raw.ID, err)
	}
	t.seen.Store(true)
	return nil
}

// Check returns nil if the topic exists, or may be published to without being
// looked at. It makes no call while the topic accepts dead letters.
func (t *DeadLetterTopic) Check(ctx context.Context) error {
	if t.seen.Load() {
		return nil
	}
	err := t.pub.Check(ctx)
	if status.Code(err) == codes.PermissionDenied {
		err = nil // the publisher role may publish but not look
	}
	if err == nil {
		t.seen.Store(true)
	}
	return err
}
