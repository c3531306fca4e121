package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/jobs"
	"github.com/batchfleet/batchfleet/worker"
)

// PubSub makes topics and subscriptions, and looks at them. Its methods may be
// called concurrently.
type PubSub struct {
	topics        *pubsub.TopicAdminClient
	subscriptions *pubsub.SubscriptionAdminClient
}

// OpenPubSub returns one for the service that the options of
// [worker.PubSubOptions] name. It does not wait for the service. Close it after
// use.
func OpenPubSub(ctx context.Context, opts ...option.ClientOption) (*PubSub, error) {
	topics, err := pubsub.NewTopicAdminClient(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("open pub/sub: %w", err)
	}
	subscriptions, err := pubsub.NewSubscriptionAdminClient(ctx, opts...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open pub/sub: %w", err), topics.Close())
	}
	// The library would try again in silence until the deadline, and then say only
	// that it was over.
	topics.CallOptions, subscriptions.CallOptions = &pubsub.TopicAdminCallOptions{}, &pubsub.SubscriptionAdminCallOptions{}
	return &PubSub{topics, subscriptions}, nil
}

// Close closes the connections.
func (p *PubSub) Close() error { return errors.Join(p.topics.Close(), p.subscriptions.Close()) }

// found is what there is under a name.
type found uint8

const (
	absent found = iota + 1
	present
	hidden // this account may not look
)

// look turns the error of a look at something into what was found.
func look(what string, err error) (found, error) {
	switch status.Code(err) { //nolint:exhaustive // the others are trouble
	case codes.OK:
		return present, nil
	case codes.NotFound:
		return absent, nil
	case codes.PermissionDenied:
		return hidden, nil
	}
	return 0, trouble("look at "+what, err)
}

func (p *PubSub) topic(ctx context.Context, name string) (found, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := p.topics.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: name})
	return look("topic "+name, err)
}

// subscription returns also its topic and its ack deadline when it is present.
func (p *PubSub) subscription(ctx context.Context, name string) (f found, topic string, ackDeadline time.Duration, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	sub, err := p.subscriptions.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
	f, err = look("subscription "+name, err)
	return f, sub.GetTopic(), time.Duration(sub.GetAckDeadlineSeconds()) * time.Second, err
}

// createTopic creates a topic, and reports whether it did. That it is there
// already is no error.
func (p *PubSub) createTopic(ctx context.Context, name string) (created bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err = p.topics.CreateTopic(ctx, &pubsubpb.Topic{Name: name})
	return made("create topic "+name, err)
}

// createSubscription creates a subscription that never expires, and reports whether
// it did. That it is there already, perhaps otherwise, is no error.
func (p *PubSub) createSubscription(ctx context.Context, q Queue, ackDeadline time.Duration) (created bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err = p.subscriptions.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: q.Subscription, Topic: q.Topic,
		AckDeadlineSeconds: int32(min(ackDeadline, time.Hour) / time.Second), //nolint:gosec // an hour is refused, and fits
		// As a rule one that nobody has pulled from for 31 days is deleted, with all
		// that waits in it.
		ExpirationPolicy: &pubsubpb.ExpirationPolicy{},
	})
	return made("create subscription "+q.Subscription, err)
}

func made(what string, err error) (created bool, _ error) {
	if err == nil || status.Code(err) == codes.AlreadyExists {
		return err == nil, nil
	}
	return false, trouble(what, err)
}

// trouble says whether a person must mend what a call of Pub/Sub met.
func trouble(what string, err error) error {
	switch status.Code(err) { //nolint:exhaustive // the others pass
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition:
		return fmt.Errorf("%s: %w: %w", what, worker.ErrRefused, err)
	}
	return fmt.Errorf("%s: %w: %w", what, jobs.ErrUnavailable, err)
}
