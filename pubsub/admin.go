package pubsub

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/batchfleet/batchfleet/jobs"
)

// adminTimeout bounds one call: some of them make things.
const adminTimeout = 10 * time.Second

var errNoAnswer = fmt.Errorf("no answer within %s: %w", adminTimeout, jobs.ErrUnavailable)

// Admin creates and reads topics and subscriptions. Its methods may be called
// concurrently.
type Admin struct {
	topics        *apiv1.TopicAdminClient
	subscriptions *apiv1.SubscriptionAdminClient
}

// OpenAdmin returns one for the service that the options of [Options] name. It does not
// wait for the service. Close it after use.
func OpenAdmin(ctx context.Context, opts ...option.ClientOption) (*Admin, error) {
	topics, err := apiv1.NewTopicAdminClient(ctx, opts...)
	if err != nil {
		return nil, cannotOpen(err)
	}
	subscriptions, err := apiv1.NewSubscriptionAdminClient(ctx, opts...)
	if err != nil {
		return nil, errors.Join(cannotOpen(err), topics.Close())
	}
	// The library would retry until the deadline and then report only a timeout.
	topics.CallOptions, subscriptions.CallOptions = &apiv1.TopicAdminCallOptions{}, &apiv1.SubscriptionAdminCallOptions{}
	return &Admin{topics, subscriptions}, nil
}

// Close closes the connections.
func (p *Admin) Close() error { return errors.Join(p.topics.Close(), p.subscriptions.Close()) }

// Found is what there is under a name.
type Found uint8

// What a Get call may find.
const (
	Absent Found = iota + 1
	Present
	Hidden // this account may not read it
)

// foundBy turns the error of a Get call into what was found.
func foundBy(what string, err error) (Found, error) {
	switch status.Code(err) { //nolint:exhaustive // the others are errors
	case codes.OK:
		return Present, nil
	case codes.NotFound:
		return Absent, nil
	case codes.PermissionDenied:
		return Hidden, nil
	}
	return 0, translate("look at "+what, err, codes.FailedPrecondition)
}

// Topic returns whether a topic is there.
func (p *Admin) Topic(ctx context.Context, name string) (Found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, adminTimeout, errNoAnswer)
	defer cancel()
	_, err := p.topics.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: name})
	return foundBy("topic "+name, err)
}

// Subscription returns whether a subscription is there, and of one that is its topic and
// ack deadline.
func (p *Admin) Subscription(ctx context.Context, name string) (f Found, topic string, ackDeadline time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, adminTimeout, errNoAnswer)
	defer cancel()
	sub, err := p.subscriptions.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
	f, err = foundBy("subscription "+name, err)
	return f, sub.GetTopic(), time.Duration(sub.GetAckDeadlineSeconds()) * time.Second, err
}

// CreateTopic creates a topic, and reports whether it did. That it is there
// already is no error.
func (p *Admin) CreateTopic(ctx context.Context, name string) (created bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, adminTimeout, errNoAnswer)
	defer cancel()
	_, err = p.topics.CreateTopic(ctx, &pubsubpb.Topic{Name: name})
	return made("create topic "+name, err)
}

// CreateSubscription creates a subscription that never expires, and reports whether
// it did. That it is there already, perhaps otherwise, is no error.
func (p *Admin) CreateSubscription(ctx context.Context, name, topic string, ackDeadline time.Duration) (created bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, adminTimeout, errNoAnswer)
	defer cancel()
	_, err = p.subscriptions.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: name, Topic: topic,
		AckDeadlineSeconds: int32(min(ackDeadline, time.Hour) / time.Second), //nolint:gosec // an hour is refused, and fits
		// Without this, Pub/Sub deletes a subscription and its messages after 31 days
		// without a pull.
		ExpirationPolicy: &pubsubpb.ExpirationPolicy{},
	})
	return made("create subscription "+name, err)
}

func made(what string, err error) (created bool, _ error) {
	if err == nil || status.Code(err) == codes.AlreadyExists {
		return err == nil, nil
	}
	return false, translate(what, err, codes.FailedPrecondition)
}

// HasSubscription returns whether a topic has a subscription, without which it keeps no
// message. It is an error if there is no such topic.
func (p *Admin) HasSubscription(ctx context.Context, topic string) (Found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, adminTimeout, errNoAnswer)
	defer cancel()
	_, err := p.topics.ListTopicSubscriptions(ctx, &pubsubpb.ListTopicSubscriptionsRequest{Topic: topic, PageSize: 1}).Next()
	if errors.Is(err, iterator.Done) {
		return Absent, nil
	}
	if status.Code(err) == codes.NotFound {
		return 0, translate("look at topic "+topic, err)
	}
	return foundBy("subscriptions of topic "+topic, err)
}
